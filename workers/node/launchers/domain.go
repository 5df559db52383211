package launchers

import (
	"net"
	"net/netip"
	"strings"
	"unicode"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// Limits of a launcher's answer, in bytes and in elements. KubeVirt's names are at most 63 characters; a launcher
// cannot attach more disks or interfaces than the guest has PCI slots for.
const (
	maxText     = 1 << 10
	maxName     = 128
	maxElements = 64
	// Of what a guest's agent reports.
	maxGuestText       = 256
	maxGuestInterfaces = 32
	maxAddresses       = 8
)

// observation returns the launcher's answer, limited and sanitised. The pod is the caller's knowledge.
func observation(pod string, d *rpc.Domain) contract.DomainObservation {
	o := contract.DomainObservation{
		PodUID:         pod,
		Sequence:       d.GetSequence(),
		State:          domainState(d.GetState()),
		Reason:         sanitize(d.GetReason(), maxName),
		AgentConnected: d.GetAgentConnected(),
		MachineType:    sanitize(d.GetMachineType(), maxName),
		GuestMemory:    max(0, d.GetGuestMemoryBytes()),
		Frozen:         d.GetFrozen(),
		Problem:        sanitize(d.GetProblem(), maxGuestText),
	}
	if o.State == contract.DomainPaused {
		o.Reason = pauseReason(d.GetPauseReason())
	}
	for _, i := range d.GetInterfaces()[:min(maxElements, len(d.GetInterfaces()))] {
		o.Interfaces = append(o.Interfaces, contract.DomainInterface{
			Name:             sanitize(i.GetName(), maxName),
			MAC:              sanitize(i.GetMac(), maxName),
			PodInterfaceName: sanitize(i.GetPodInterface(), maxName),
			QueueCount:       max(0, i.GetQueues()),
			LinkState:        sanitize(i.GetLinkState(), maxName),
			Bridged:          i.GetBridged(),
		})
	}
	for _, v := range d.GetVolumes()[:min(maxElements, len(d.GetVolumes()))] {
		o.Volumes = append(o.Volumes, contract.DomainVolume{
			Name:   sanitize(v.GetName(), maxName),
			Target: sanitize(v.GetTarget(), maxName),
			Size:   max(0, v.GetSizeBytes()),
		})
	}
	o.Guest = guestInfo(d.GetGuest())
	o.Migration = migrationProgress(d.GetMigration())
	if c := d.GetAccessCredentials(); c != nil {
		o.AccessCredentials = &contract.AccessCredentials{
			Done: c.GetDone(), Message: sanitize(c.GetMessage(), maxGuestText),
		}
	}
	return o
}

// guestInfo returns what the guest's agent reports, as the launcher forwarded it, without invalid addresses and
// hardware addresses.
func guestInfo(g *rpc.GuestInfo) *contract.GuestInfo {
	if g == nil {
		return nil
	}
	os := g.GetOs()
	out := &contract.GuestInfo{
		AgentProblem: sanitize(g.GetAgentProblem(), maxName),
		OS: contract.GuestOS{
			ID: sanitize(os.GetId(), maxGuestText), Name: sanitize(os.GetName(), maxGuestText),
			Version:       sanitize(os.GetVersion(), maxGuestText),
			VersionID:     sanitize(os.GetVersionId(), maxGuestText),
			PrettyName:    sanitize(os.GetPrettyName(), maxGuestText),
			KernelRelease: sanitize(os.GetKernelRelease(), maxGuestText),
			KernelVersion: sanitize(os.GetKernelVersion(), maxGuestText),
			Machine:       sanitize(os.GetMachine(), maxGuestText),
		},
	}
	for _, i := range g.GetInterfaces() {
		mac, err := net.ParseMAC(i.GetMac())
		if err != nil || len(out.Interfaces) == maxGuestInterfaces {
			continue
		}
		found := contract.GuestInterface{MAC: mac.String(), Name: sanitize(i.GetName(), maxName)}
		for _, a := range i.GetAddresses()[:min(maxAddresses, len(i.GetAddresses()))] {
			if ip, err := netip.ParseAddr(a); err == nil && ip.Zone() == "" {
				found.IPs = append(found.IPs, ip.String())
			}
		}
		out.Interfaces = append(out.Interfaces, found)
	}
	return out
}

// domainState converts the launcher's state of a domain to the contract's.
func domainState(s rpc.DomainState) contract.DomainState {
	switch s {
	case rpc.DomainState_DOMAIN_STATE_RUNNING:
		return contract.DomainRunning
	case rpc.DomainState_DOMAIN_STATE_PAUSED:
		return contract.DomainPaused
	case rpc.DomainState_DOMAIN_STATE_SHUTDOWN:
		return contract.DomainShutdown
	case rpc.DomainState_DOMAIN_STATE_SHUTOFF:
		return contract.DomainShutoff
	case rpc.DomainState_DOMAIN_STATE_CRASHED:
		return contract.DomainCrashed
	case rpc.DomainState_DOMAIN_STATE_UNSPECIFIED, rpc.DomainState_DOMAIN_STATE_ABSENT:
	}
	return contract.DomainAbsent
}

func pauseReason(r rpc.PauseReason) string {
	switch r {
	case rpc.PauseReason_PAUSE_REASON_IO_ERROR:
		return contract.PausedIOError
	case rpc.PauseReason_PAUSE_REASON_NO_SPACE:
		return contract.PausedNoSpace
	case rpc.PauseReason_PAUSE_REASON_MIGRATION:
		return contract.PausedMigration
	case rpc.PauseReason_PAUSE_REASON_OTHER:
		return contract.PausedOther
	case rpc.PauseReason_PAUSE_REASON_USER, rpc.PauseReason_PAUSE_REASON_UNSPECIFIED:
	}
	return ""
}

// sanitize returns s in at most limit bytes of valid UTF-8 on one line: nothing in it can forge a line of a log.
func sanitize(s string, limit int) string {
	s = s[:min(len(s), 2*limit)]
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strings.TrimSpace(contract.Cut(s, limit))
}
