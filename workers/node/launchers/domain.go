package launchers

import (
	"net"
	"net/netip"
	"strings"
	"unicode"

	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workflows/contract"
)

// What of a launcher's answer travels on, in bytes and in elements. KubeVirt's names are at most 63 characters; a
// launcher cannot attach more disks or interfaces than the guest has PCI slots for.
const (
	maxText     = 1 << 10
	maxName     = 128
	maxElements = 64
	// Of what a guest says of itself.
	maxGuestText       = 256
	maxGuestInterfaces = 32
	maxAddresses       = 8
)

// observation is what the launcher of the pod says, cut and cleaned. The pod is the caller's knowledge.
func observation(pod string, d *rpc.Domain) contract.DomainObservation {
	o := contract.DomainObservation{
		PodUID:         pod,
		Sequence:       d.GetSequence(),
		State:          state(d.GetState()),
		Reason:         text(d.GetReason(), maxName),
		AgentConnected: d.GetAgentConnected(),
		MachineType:    text(d.GetMachineType(), maxName),
		GuestMemory:    max(0, d.GetGuestMemoryBytes()),
		Frozen:         d.GetFrozen(),
		Problem:        text(d.GetProblem(), maxGuestText),
	}
	if o.State == contract.DomainPaused {
		o.Reason = pauseReason(d.GetPauseReason())
	}
	for _, i := range d.GetInterfaces()[:min(maxElements, len(d.GetInterfaces()))] {
		o.Interfaces = append(o.Interfaces, contract.DomainInterface{
			Name:             text(i.GetName(), maxName),
			MAC:              text(i.GetMac(), maxName),
			PodInterfaceName: text(i.GetPodInterface(), maxName),
			QueueCount:       max(0, i.GetQueues()),
			LinkState:        text(i.GetLinkState(), maxName),
			Bridged:          i.GetBridged(),
		})
	}
	for _, v := range d.GetVolumes()[:min(maxElements, len(d.GetVolumes()))] {
		o.Volumes = append(o.Volumes, contract.DomainVolume{
			Name:   text(v.GetName(), maxName),
			Target: text(v.GetTarget(), maxName),
			Size:   max(0, v.GetSizeBytes()),
		})
	}
	o.Guest = guestInfo(d.GetGuest())
	o.Migration = migrationProgress(d.GetMigration())
	if c := d.GetAccessCredentials(); c != nil {
		o.AccessCredentials = &contract.AccessCredentials{
			Done: c.GetDone(), Message: text(c.GetMessage(), maxGuestText),
		}
	}
	return o
}

// guestInfo is the guest's word as the launcher passed it on; what is no address or no hardware address is left out.
func guestInfo(g *rpc.GuestInfo) *contract.GuestInfo {
	if g == nil {
		return nil
	}
	os := g.GetOs()
	out := &contract.GuestInfo{
		AgentProblem: text(g.GetAgentProblem(), maxName),
		OS: contract.GuestOS{
			ID: text(os.GetId(), maxGuestText), Name: text(os.GetName(), maxGuestText),
			Version:   text(os.GetVersion(), maxGuestText),
			VersionID: text(os.GetVersionId(), maxGuestText), PrettyName: text(os.GetPrettyName(), maxGuestText),
			KernelRelease: text(os.GetKernelRelease(), maxGuestText),
			KernelVersion: text(os.GetKernelVersion(), maxGuestText),
			Machine:       text(os.GetMachine(), maxGuestText),
		},
	}
	for _, i := range g.GetInterfaces() {
		mac, err := net.ParseMAC(i.GetMac())
		if err != nil || len(out.Interfaces) == maxGuestInterfaces {
			continue
		}
		found := contract.GuestInterface{MAC: mac.String(), Name: text(i.GetName(), maxName)}
		for _, a := range i.GetAddresses()[:min(maxAddresses, len(i.GetAddresses()))] {
			if ip, err := netip.ParseAddr(a); err == nil && ip.Zone() == "" {
				found.IPs = append(found.IPs, ip.String())
			}
		}
		out.Interfaces = append(out.Interfaces, found)
	}
	return out
}

func state(s rpc.DomainState) contract.DomainState {
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

// text is s in at most limit bytes of valid UTF-8 on one line: nothing in it can forge a line of a log.
func text(s string, limit int) string {
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
