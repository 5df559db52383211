package cluster

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/virtflow/virtflow/contract"
)

// infoSources of an interface in a VMI's status, as KubeVirt names them.
const (
	sourceDomain = "domain"
	sourceAgent  = "guest-agent"
	sourceMultus = "multus-status"
)

// maxGuestOnly limits the interfaces that only the guest reports; KubeVirt's figure.
const maxGuestOnly = 10

// guestOSInfo returns status.guestOSInfo; every field is there, so that none of an earlier guest stays.
func guestOSInfo(os contract.GuestOS) merge {
	m := merge{}
	set(m, "id", os.ID)
	set(m, "name", os.Name)
	set(m, "version", os.Version)
	set(m, "versionId", os.VersionID)
	set(m, "prettyName", os.PrettyName)
	set(m, "kernelRelease", os.KernelRelease)
	set(m, "kernelVersion", os.KernelVersion)
	set(m, "machine", os.Machine)
	return m
}

// interfaces returns the domain's interfaces, with what the guest reports of each, then the interfaces that only the
// guest reports.
func interfaces(s *contract.VMIStatus) any {
	var guest []contract.GuestInterface
	if s.Guest != nil {
		guest = slices.Clone(s.Guest.Interfaces)
	}
	var out []map[string]any
	for _, n := range podNetworkFirst(s.Interfaces) {
		e := map[string]any{"name": n.Name}
		sources := []string{sourceDomain}
		ips := podAddresses(n, s.IPs)
		at := slices.IndexFunc(guest, func(g contract.GuestInterface) bool {
			return g.MAC != "" && strings.EqualFold(g.MAC, n.MAC)
		})
		if at >= 0 {
			sources = append(sources, sourceAgent)
			setText(e, "interfaceName", guest[at].Name)
			ips = addresses(ips, guest[at].IPs)
			guest = slices.Delete(guest, at, at+1)
		}
		if !onPodNetwork(n) {
			// A pod has no sandbox before Multus has given it all its networks.
			sources = append(sources, sourceMultus)
		}
		e["infoSource"] = strings.Join(sources, ", ")
		withAddresses(e, ips)
		setText(e, "mac", n.MAC)
		setText(e, "podInterfaceName", n.PodInterfaceName)
		setText(e, "linkState", n.LinkState)
		if n.QueueCount > 0 {
			e["queueCount"] = n.QueueCount
		}
		out = append(out, e)
	}
	for _, g := range guest[:min(maxGuestOnly, len(guest))] {
		e := map[string]any{"infoSource": sourceAgent}
		setText(e, "mac", g.MAC)
		setText(e, "interfaceName", g.Name)
		withAddresses(e, g.IPs)
		out = append(out, e)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// podNetworkFirst is KubeVirt's order: others look at the first interface for how a guest is reached.
func podNetworkFirst(all []contract.DomainInterface) []contract.DomainInterface {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b contract.DomainInterface) int {
		switch {
		case onPodNetwork(a) == onPodNetwork(b):
			return 0
		case onPodNetwork(a):
			return -1
		default:
			return 1
		}
	})
	return all
}

func onPodNetwork(n contract.DomainInterface) bool { return n.PodInterfaceName == "eth0" }

// podAddresses returns the pod's addresses at which an interface is reached: none if it is not on the pod network, only
// the IPv4 ones if it is bridged, otherwise all.
func podAddresses(n contract.DomainInterface, ips []string) []string {
	if !onPodNetwork(n) {
		return nil
	}
	if !n.Bridged {
		return ips
	}
	return slices.DeleteFunc(slices.Clone(ips), func(ip string) bool { return family(ip) != 4 })
}

// setText sets a field unless the value is empty.
func setText(e map[string]any, field, value string) {
	if value != "" {
		e[field] = value
	}
}

func withAddresses(e map[string]any, ips []string) {
	if len(ips) > 0 {
		e["ipAddress"], e["ipAddresses"] = ips[0], ips
	}
}

// addresses returns the addresses by which others reach an interface. If the pod has none, these are the guest's own. A
// pod's address leads to the guest by translation, so it stays as it is, but only while the guest has an address of
// that family for it to lead to; and what only the guest has is shown where others can reach it.
func addresses(pod, guest []string) []string {
	if len(pod) == 0 {
		return guest
	}
	var out []string
	for _, ip := range pod {
		if slices.ContainsFunc(guest, func(g string) bool { return family(g) == family(ip) }) {
			out = append(out, ip)
		}
	}
	for _, ip := range guest {
		a, err := netip.ParseAddr(ip)
		if err != nil || a.IsLinkLocalUnicast() || slices.ContainsFunc(pod, func(p string) bool {
			return family(p) == family(ip)
		}) {
			continue
		}
		out = append(out, ip)
	}
	return out
}

// family returns 4, 6, or 0 for an invalid address.
func family(ip string) int {
	a, err := netip.ParseAddr(ip)
	switch {
	case err != nil:
		return 0
	case a.Is4():
		return 4
	default:
		return 6
	}
}
