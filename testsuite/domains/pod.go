package domains

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// podFacts returns what a user sees of a launcher pod: its placement, its resources, its labels, and its references.
// The containers and their confinement are each system's own.
func podFacts(p *corev1.Pod) (Facts, error) {
	f := Facts{}
	var compute corev1.Container
	for _, c := range p.Spec.Containers {
		if c.Name == "compute" {
			compute = c
		}
	}
	podResources(f, compute.Resources)
	podVolumes(f, p)
	add := func(subject string, value any) error {
		facts, err := flat(value)
		f.add(subject, facts...)
		return err
	}
	s := &p.Spec
	f.add("probes", probeFacts("liveness", compute.LivenessProbe)...)
	f.add("probes", probeFacts("readiness", compute.ReadinessProbe)...)
	for _, part := range []struct {
		subject string
		value   any
	}{
		{"labels", p.Labels}, {"annotations", p.Annotations}, {"node selector", s.NodeSelector},
		{"affinity", s.Affinity},
		{"tolerations", s.Tolerations}, {"topology spread", s.TopologySpreadConstraints},
		{"readiness gates", s.ReadinessGates}, {"ports", compute.Ports}, {"pull secrets", s.ImagePullSecrets},
		{"grace period", s.TerminationGracePeriodSeconds}, {"resource claims", s.ResourceClaims},
		{"resource claims", compute.Resources.Claims},
		{"names", []any{s.Hostname, s.Subdomain, s.DNSPolicy, s.DNSConfig}},
		{"priority and scheduler", []any{s.PriorityClassName, s.SchedulerName}},
		{"service account", []any{s.ServiceAccountName, s.AutomountServiceAccountToken}},
		{"runtime class", s.RuntimeClassName},
	} {
		if err := add(part.subject, part.value); err != nil {
			return nil, err
		}
	}
	return f.sort(), nil
}

// flat returns a value as lines: a path, and its value.
func flat(value any) ([]string, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("writing a part of a pod: %w", err)
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("reading a part of a pod: %w", err)
	}
	return lines(tree, ""), nil
}

func lines(value any, at string) []string {
	var out []string
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for k, e := range v {
			out = append(out, lines(e, at+"."+k)...)
		}
	case []any:
		for i, e := range v {
			out = append(out, lines(e, at+"["+strconv.Itoa(i)+"]")...)
		}
	default:
		if v != "" {
			out = append(out, fmt.Sprintf("%s=%v", strings.TrimPrefix(at, "."), v))
		}
	}
	return out
}

func podResources(f Facts, r corev1.ResourceRequirements) {
	for kind, list := range map[string]corev1.ResourceList{"request": r.Requests, "limit": r.Limits} {
		for name, q := range list {
			subject := "devices"
			switch {
			case name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage:
				subject = string(name)
			case strings.HasPrefix(string(name), "hugepages-"):
				subject = "hugepages"
			case kind == "request": // of a device: as its limit
				continue
			}
			f.add(subject, fmt.Sprintf("%s %s=%s", kind, name, amount(q)))
		}
	}
}

// emulation is the memory of a launcher pod for QEMU's cache of translated code, which KubeVirt's does not get.
const emulation = 64 << 20

// withoutEmulation subtracts the memory for emulation from that of an instance's pod. The pod of an instance with
// overcommitted overhead has no memory beyond the guest's.
func (f Facts) withoutEmulation(vmi *kubevirtv1.VirtualMachineInstance) error {
	if vmi.Spec.Domain.Resources.OvercommitGuestOverhead {
		return nil
	}
	for i, fact := range f["memory"] {
		what, text, _ := strings.Cut(fact, "=")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("the memory of a pod: %w", err)
		}
		f["memory"][i] = fmt.Sprintf("%s=%d", what, n-emulation)
	}
	return nil
}

func amount(q resource.Quantity) string {
	if n := q.MilliValue(); n%1000 != 0 {
		return fmt.Sprintf("%dm", n)
	}
	return strconv.FormatInt(q.Value(), 10)
}

// probeFacts returns a probe's facts. A probe by the guest's agent is a command in the launcher, which differs between
// the two launchers.
func probeFacts(kind string, p *corev1.Probe) []string {
	if p == nil {
		return nil
	}
	var out []string
	if p.Exec != nil {
		command := p.Exec.Command
		text := ""
		if i := slices.Index(command, "--command"); i >= 0 {
			text = command[i+1]
		}
		if i := slices.Index(command, "--"); i >= 0 {
			text += " " + strings.Join(command[i+1:], " ")
		}
		if slices.ContainsFunc(command, func(s string) bool {
			return s == "--guestAgentPing" || s == "--guest-agent-ping"
		}) {
			text = "ping"
		}
		out = append(out, kind+" agent: "+text)
	}
	without := p.DeepCopy()
	without.Exec = nil
	facts, err := flat(without)
	if err != nil {
		return []string{err.Error()}
	}
	for _, fact := range facts {
		out = append(out, kind+" "+fact)
	}
	return out
}

// podVolumes adds the references of the user's volumes.
func podVolumes(f Facts, p *corev1.Pod) {
	for _, v := range p.Spec.Volumes {
		switch {
		case v.Image != nil && !strings.Contains(v.Image.Reference, "/virt-launcher:"):
			f.add("volumes", fmt.Sprintf("image %s %s", v.Image.Reference, v.Image.PullPolicy))
		case v.PersistentVolumeClaim != nil:
			f.add("volumes", fmt.Sprintf("claim %s read-only=%t", v.PersistentVolumeClaim.ClaimName,
				v.PersistentVolumeClaim.ReadOnly))
		case v.ConfigMap != nil:
			f.add("volumes", "configMap "+v.ConfigMap.Name)
		case v.Secret != nil && !strings.HasPrefix(v.Secret.SecretName, "virt-launcher-"): // virtflow's own
			f.add("volumes", "secret "+v.Secret.SecretName)
		case v.HostPath != nil:
			f.add("volumes", "hostPath "+v.HostPath.Path)
		}
	}
}
