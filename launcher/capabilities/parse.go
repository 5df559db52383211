package capabilities

import (
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/contract"
)

// architecture is libvirt's name of the only supported one.
const architecture = "x86_64"

// From parses libvirt's answers: the host's capabilities, those of a domain of the given type, and the host model with
// all its features.
func From(host, guest, baseline, virtType string) (contract.HostCapabilities, error) {
	out := contract.HostCapabilities{VirtType: virtType}
	var caps libvirtxml.Caps
	if err := caps.Unmarshal(host); err != nil {
		return out, fmt.Errorf("reading the host's capabilities: %w", err)
	}
	var dom libvirtxml.DomainCaps
	if err := dom.Unmarshal(guest); err != nil {
		return out, fmt.Errorf("reading the domain's capabilities: %w", err)
	}
	var full libvirtxml.DomainCPU
	if err := full.Unmarshal(baseline); err != nil {
		return out, fmt.Errorf("reading the host's CPU: %w", err)
	}
	out.MachineTypes, out.DeprecatedMachineTypes = machineTypes(&caps, virtType)
	for _, f := range full.Features {
		if f.Policy == "require" || f.Policy == "" {
			out.CPUFeatures = append(out.CPUFeatures, f.Name)
		}
	}
	if dom.CPU != nil {
		for _, mode := range dom.CPU.Modes {
			switch {
			case mode.Name == "custom":
				for _, m := range mode.Models {
					if m.Usable == "yes" {
						out.CPUModels = append(out.CPUModels, m.Name)
					}
				}
			case mode.Name == "host-model" && mode.Supported == "yes":
				// For emulated domains this is the CPU that QEMU emulates, whatever the host's CPU is.
				out.HostModel, out.HostModelFeatures = hostModel(mode)
			}
		}
	}
	if cpu := caps.Host.CPU; virtType == "kvm" && cpu != nil && cpu.Counter != nil && cpu.Counter.Name == "tsc" {
		out.TSCFrequency, out.TSCScalable = uint64(cpu.Counter.Frequency), cpu.Counter.Scaling == "yes"
	}
	for _, list := range []*[]string{&out.MachineTypes, &out.DeprecatedMachineTypes, &out.CPUModels, &out.CPUFeatures,
		&out.HostModelFeatures} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return out, nil
}

// machineTypes returns the machine types of the architecture, with their aliases.
func machineTypes(caps *libvirtxml.Caps, virtType string) (all, deprecated []string) {
	for _, g := range caps.Guests {
		if g.OSType != "hvm" || g.Arch.Name != architecture {
			continue
		}
		machines := g.Arch.Machines
		for _, d := range g.Arch.Domains {
			if d.Type == virtType && len(d.Machines) > 0 {
				machines = d.Machines
			}
		}
		for _, m := range machines {
			all = append(all, m.Name)
			if m.Canonical != "" {
				all = append(all, m.Canonical)
			}
			if m.Deprecated == "yes" {
				deprecated = append(deprecated, m.Name)
			}
		}
	}
	return all, deprecated
}

func hostModel(mode libvirtxml.DomainCapsCPUMode) (model string, features []string) {
	for _, m := range mode.Models {
		model = m.Name
	}
	for _, f := range mode.Features {
		if f.Policy == "require" {
			features = append(features, f.Name)
		}
	}
	return model, features
}
