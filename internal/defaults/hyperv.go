package defaults

import kubevirtv1 "kubevirt.io/api/core/v1"

// The CPU feature that a nested Hyper-V requires.
const (
	VMXFeature    = "vmx"
	RequirePolicy = "require"
)

// HypervDependency is one Hyper-V enlightenment that depends on another one.
type HypervDependency struct {
	Name, Requires string
	enabled        *bool
	requirement    **kubevirtv1.FeatureState
}

// Wanted reports whether the enlightenment is switched on.
func (d HypervDependency) Wanted() bool { return d.enabled != nil && *d.enabled }

// Met reports whether the required feature is switched on.
func (d HypervDependency) Met() bool {
	r := *d.requirement
	return r != nil && r.Enabled != nil && *r.Enabled
}

// HypervDependencies lists the dependencies between Hyper-V features, each before those that it requires.
func HypervDependencies(h *kubevirtv1.FeatureHyperv) []HypervDependency {
	var synicTimer, tlbFlush *bool
	if h.SyNICTimer != nil {
		synicTimer = h.SyNICTimer.Enabled
	}
	if h.TLBFlush != nil {
		tlbFlush = h.TLBFlush.Enabled
	}
	return []HypervDependency{
		{"evmcs", "vapic", state(h.EVMCS), &h.VAPIC},
		{"ipi", "vpindex", state(h.IPI), &h.VPIndex},
		{"tlbflush", "vpindex", tlbFlush, &h.VPIndex},
		{"synictimer", "synic", synicTimer, &h.SyNIC},
		{"synic", "vpindex", state(h.SyNIC), &h.VPIndex},
	}
}

func state(f *kubevirtv1.FeatureState) *bool {
	if f == nil {
		return nil
	}
	return f.Enabled
}

// hypervFeatures switches on required enlightenments. It stops at the first that is switched off: the rules report it.
func hypervFeatures(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	if spec.Domain.Features == nil || spec.Domain.Features.Hyperv == nil {
		return
	}
	h := spec.Domain.Features.Hyperv
	for i := range HypervDependencies(h) {
		d := HypervDependencies(h)[i] // an earlier one may have switched it on
		if !d.Wanted() || d.Met() {
			continue
		}
		r := *d.requirement
		if r != nil && r.Enabled != nil {
			return
		}
		if r == nil {
			*d.requirement = &kubevirtv1.FeatureState{}
		}
		enabled := true
		(*d.requirement).Enabled = &enabled
	}
	if h.EVMCS != nil && (h.EVMCS.Enabled == nil || *h.EVMCS.Enabled) {
		requireVMX(spec)
	}
}

func requireVMX(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	if spec.Domain.CPU == nil {
		spec.Domain.CPU = &kubevirtv1.CPU{}
	}
	features := spec.Domain.CPU.Features
	for i := range features {
		if features[i].Name == VMXFeature {
			features[i].Policy = RequirePolicy
			return
		}
	}
	spec.Domain.CPU.Features = append(spec.Domain.CPU.Features,
		kubevirtv1.CPUFeature{Name: VMXFeature, Policy: RequirePolicy})
}
