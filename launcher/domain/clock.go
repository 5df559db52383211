package domain

import (
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

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
