package bindings

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

// Plugins has the configured plugins by their names.
type Plugins map[string]kubevirt.InterfaceBindingPlugin

// From returns the plugins of a configuration.
func From(c *kubevirt.KubeVirtConfiguration) Plugins {
	if c.NetworkConfiguration == nil {
		return nil
	}
	return c.NetworkConfiguration.Binding
}

// Problem is the reason why a plugin is not supported, with the path of the field below the plugin.
type Problem struct{ Field, Why string }

// Problems returns all reasons why a plugin is not supported; none: it is.
func Problems(p *kubevirt.InterfaceBindingPlugin) []Problem {
	var out []Problem
	switch {
	case p.SidecarImage != "":
		out = append(out, Problem{"sidecarImage", "a program that changes the guest's domain beside the launcher is not " +
			"supported"})
	case p.DomainAttachmentType != kubevirt.Tap && p.DomainAttachmentType != kubevirt.ManagedTap:
		out = append(out, Problem{"domainAttachmentType", "without a sidecar, it must be tap or managedTap"})
	}
	if p.DownwardAPI != "" {
		out = append(out, Problem{"downwardAPI", "is for a sidecar, which is not supported"})
	}
	if p.Migration != nil && p.Migration.Method != "" {
		out = append(out, Problem{"migration.method", string(p.Migration.Method) + " is not supported yet: write " +
			"migration: {} if guests need no new address after a migration"})
	}
	return out
}

// Attachment returns how the domain of a guest is attached by a plugin.
func (p Plugins) Attachment(name string) (kubevirt.DomainAttachmentType, error) {
	plugin, ok := p[name]
	if !ok { // KubeVirt's words
		return "", fmt.Errorf("couldn't find configuration for network binding: %s", name)
	}
	if problems := Problems(&plugin); len(problems) > 0 {
		return "", fmt.Errorf("the binding plugin %s cannot be used: configuration.network.binding[%s].%s: %s", name, name,
			problems[0].Field, problems[0].Why)
	}
	return plugin.DomainAttachmentType, nil
}

// CanMigrate reports whether a guest on the pod's network by that plugin can migrate.
func (p Plugins) CanMigrate(name string) bool { return p[name].Migration != nil }

// Definitions returns the NetworkAttachmentDefinitions that pods need for plugins, by the plugins' names.
func (p Plugins) Definitions() map[string]string {
	out := map[string]string{}
	for name, plugin := range p {
		if plugin.NetworkAttachmentDefinition != "" {
			out[name] = plugin.NetworkAttachmentDefinition
		}
	}
	return out
}

// Memory returns what the plugins of a guest need in the launcher's container, in bytes: of each plugin once. As in
// KubeVirt, only their requests of memory count.
func (p Plugins) Memory(interfaces []kubevirt.Interface) int64 {
	var sum int64
	counted := map[string]bool{}
	for i := range interfaces {
		b := interfaces[i].Binding
		if b == nil || counted[b.Name] {
			continue
		}
		counted[b.Name] = true
		if overhead := p[b.Name].ComputeResourceOverhead; overhead != nil {
			q := overhead.Requests[corev1.ResourceMemory]
			sum += max(0, q.Value())
		}
	}
	return sum
}
