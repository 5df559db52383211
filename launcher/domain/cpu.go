package domain

import (
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

func cpu(spec *v1.DomainSpec, topology libvirtxml.DomainCPUTopology, kvm bool) *libvirtxml.DomainCPU {
	c := &libvirtxml.DomainCPU{Topology: &topology}
	model := v1.CPUModeHostModel
	if spec.CPU != nil && spec.CPU.Model != "" {
		model = spec.CPU.Model
	}
	host := model == v1.CPUModeHostModel || model == v1.CPUModeHostPassthrough
	switch {
	case model == v1.CPUModeHostPassthrough && kvm:
		c.Mode = model
	case host:
		// Under emulation this is all that QEMU emulates, which is the same on every host; there is nothing to pass
		// through.
		c.Mode = v1.CPUModeHostModel
	default:
		c.Mode = "custom"
		c.Model = &libvirtxml.DomainCPUModel{Value: model}
		if !kvm {
			// Emulation lacks parts of most models; the guest gets the rest, as with KubeVirt's useEmulation.
			c.Match, c.Check = "exact", "none"
		}
		c.Features = append(c.Features, libvirtxml.DomainCPUFeature{Policy: "disable", Name: "mpx"})
	}
	if spec.CPU == nil {
		return c
	}
	for _, f := range spec.CPU.Features {
		c.Features = append(c.Features, libvirtxml.DomainCPUFeature{Name: f.Name, Policy: featurePolicy(f.Policy)})
	}
	return c
}

// featurePolicy: KubeVirt takes no policy as require.
func featurePolicy(policy string) string {
	if policy == "" {
		return "require"
	}
	return policy
}

func clock(c *v1.Clock) *libvirtxml.DomainClock {
	out := &libvirtxml.DomainClock{Offset: "utc"}
	if c == nil {
		return out
	}
	switch {
	case c.UTC != nil && c.UTC.OffsetSeconds != nil:
		out.Offset, out.Adjustment = "variable", itoa(*c.UTC.OffsetSeconds)
	case c.UTC != nil:
		out.Adjustment = "reset"
	case c.Timezone != nil:
		out.Offset, out.TimeZone = "timezone", string(*c.Timezone)
	}
	if c.Timer != nil {
		out.Timer = timers(c.Timer)
	}
	return out
}

func timers(t *v1.Timer) []libvirtxml.DomainTimer {
	var out []libvirtxml.DomainTimer
	if t.RTC != nil {
		out = append(out, libvirtxml.DomainTimer{
			Name: "rtc", TickPolicy: string(t.RTC.TickPolicy), Track: string(t.RTC.Track),
			Present: yesNo(unlessFalse(t.RTC.Enabled)),
		})
	}
	if t.PIT != nil {
		out = append(out, libvirtxml.DomainTimer{Name: "pit", TickPolicy: string(t.PIT.TickPolicy),
			Present: yesNo(unlessFalse(t.PIT.Enabled))})
	}
	if t.KVM != nil {
		out = append(out, libvirtxml.DomainTimer{Name: "kvmclock", Present: yesNo(unlessFalse(t.KVM.Enabled))})
	}
	if t.HPET != nil {
		out = append(out, libvirtxml.DomainTimer{Name: "hpet", TickPolicy: string(t.HPET.TickPolicy),
			Present: yesNo(unlessFalse(t.HPET.Enabled))})
	}
	if t.Hyperv != nil {
		out = append(out, libvirtxml.DomainTimer{Name: "hypervclock", Present: yesNo(unlessFalse(t.Hyperv.Enabled))})
	}
	return out
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
