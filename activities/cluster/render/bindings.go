package render

import (
	"fmt"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/bindings"
	"github.com/virtflow/virtflow/internal/settings"
)

// checkBindings fails for an interface whose binding plugin the KubeVirt object does not configure, or configures in a
// way that is not supported.
func checkBindings(d *kubevirt.DomainSpec, s settings.Settings) error {
	plugins := bindings.From(&s.Configuration)
	for i := range d.Devices.Interfaces {
		b := d.Devices.Interfaces[i].Binding
		if b == nil {
			continue
		}
		if _, err := plugins.Attachment(b.Name); err != nil {
			return fmt.Errorf("spec.domain.devices.interfaces[%d].binding.name: %w", i, err)
		}
	}
	return nil
}

// attachments returns how the domain is attached by each plugin that the guest uses. Its launcher does not know the
// KubeVirt object.
func attachments(d *kubevirt.DomainSpec, s *settings.Settings) map[string]kubevirt.DomainAttachmentType {
	plugins, out := bindings.From(&s.Configuration), map[string]kubevirt.DomainAttachmentType{}
	for i := range d.Devices.Interfaces {
		if b := d.Devices.Interfaces[i].Binding; b != nil {
			if attachment, err := plugins.Attachment(b.Name); err == nil {
				out[b.Name] = attachment
			}
		}
	}
	return out
}
