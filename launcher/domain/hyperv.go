package domain

import (
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// spinlockRetries is KubeVirt's default.
const spinlockRetries = 4096

// hyperv returns the enlightenments by which Windows treats the machine as one of Hyper-V's: each that the spec names
// is on unless its state is off. KVM implements them; an emulated guest gets none.
func hyperv(f *v1.Features) *libvirtxml.DomainFeatureHyperV {
	if p := f.HypervPassthrough; p != nil && unlessFalse(p.Enabled) {
		return &libvirtxml.DomainFeatureHyperV{Mode: "passthrough"}
	}
	h := f.Hyperv
	if h == nil {
		return nil
	}
	out := &libvirtxml.DomainFeatureHyperV{
		Relaxed: featureState(h.Relaxed), VAPIC: featureState(h.VAPIC), VPIndex: featureState(h.VPIndex),
		Runtime: featureState(h.Runtime), Synic: featureState(h.SyNIC), Reset: featureState(h.Reset),
		Frequencies: featureState(h.Frequencies), ReEnlightenment: featureState(h.Reenlightenment),
		IPI: featureState(h.IPI), EVMCS: featureState(h.EVMCS),
	}
	if s := h.Spinlocks; s != nil {
		out.Spinlocks = &libvirtxml.DomainFeatureHyperVSpinlocks{
			DomainFeatureState: *featureState(&s.FeatureState), Retries: spinlockRetries,
		}
		if s.Retries != nil {
			out.Spinlocks.Retries = uint(*s.Retries)
		}
	}
	if t := h.SyNICTimer; t != nil {
		out.STimer = &libvirtxml.DomainFeatureHyperVSTimer{
			DomainFeatureState: *featureState(&t.FeatureState), Direct: featureState(t.Direct),
		}
	}
	if v := h.VendorID; v != nil {
		out.VendorId = &libvirtxml.DomainFeatureHyperVVendorId{
			DomainFeatureState: *featureState(&v.FeatureState), Value: v.VendorID,
		}
	}
	if t := h.TLBFlush; t != nil {
		out.TLBFlush = &libvirtxml.DomainFeatureHyperVTLBFlush{
			DomainFeatureState: *featureState(&t.FeatureState),
			Direct:             featureState(t.Direct), Extended: featureState(t.Extended),
		}
	}
	return out
}

func featureState(f *v1.FeatureState) *libvirtxml.DomainFeatureState {
	if f == nil {
		return nil
	}
	return &libvirtxml.DomainFeatureState{State: onOff(enabled(f))}
}
