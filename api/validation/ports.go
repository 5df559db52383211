package validation

import (
	"cmp"
	"net"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

const (
	lastPort         = 65535
	maxPortRanges    = 10
	firstPrivateDHCP = 224
	lastPrivateDHCP  = 254
)

func ports(s subject, i int) []metav1.StatusCause {
	f := s.ifaceOf(i)
	if n := s.networkOf(f.Name); n.Pod == nil {
		return nil
	}
	causes := portNames(s.iface(i).Child("ports"), f.Ports)
	for j, port := range f.Ports {
		p := s.iface(i).Child("ports").Index(j)
		if port.Port == 0 {
			causes = append(causes, required(p.Child("port"), "Port field is mandatory.")...)
		}
		if port.Port < 0 || port.Port > lastPort {
			causes = append(causes, invalid(p.Child("port"), "Port field must be in range 0 < x < 65536.")...)
		}
		if port.Protocol != "" && port.Protocol != "TCP" && port.Protocol != "UDP" {
			causes = append(causes, invalid(p.Child("protocol"), "Unknown protocol, only TCP or UDP allowed")...)
		}
	}
	return causes
}

func portNames(p *field.Path, ports []kubevirtv1.Port) []metav1.StatusCause {
	var causes []metav1.StatusCause
	known := map[string]bool{}
	for j, port := range ports {
		if port.Name == "" {
			continue
		}
		if known[port.Name] {
			causes = append(causes, duplicate(p.Index(j).Child("name"), "Duplicate name of the port: %s", port.Name)...)
		}
		if len(validation.IsValidPortName(port.Name)) > 0 {
			causes = append(causes, invalid(p.Index(j).Child("name"), "Invalid name of the port: %s", port.Name)...)
		}
		known[port.Name] = true
	}
	return causes
}

func portRanges(s subject, i int) []metav1.StatusCause {
	f, name := s.ifaceOf(i), s.iface(i).Child("name")
	if f.PortRanges == nil {
		return nil
	}
	if !s.cluster.Enabled(defaults.GatePortRanges) {
		return invalid(name, "portRanges is specified on interface but the PortRangesSpec feature gate is not enabled")
	}
	if n := s.networkOf(f.Name); n.Pod == nil {
		return nil
	}
	var causes []metav1.StatusCause
	if f.Ports != nil {
		causes = append(causes, invalid(name, "Cannot define both ports and portRanges on interface")...)
	}
	if f.Masquerade == nil {
		causes = append(causes, invalid(name, "portRanges are only supported on masquerade interfaces")...)
	}
	return append(causes, rangesOfPorts(s.iface(i).Child("portRanges"), f.PortRanges)...)
}

func rangesOfPorts(p *field.Path, ranges []kubevirtv1.PortRange) []metav1.StatusCause {
	if len(ranges) > maxPortRanges {
		return invalid(p, "No more than 10 portRanges are allowed")
	}
	isPort := func(n int32) bool { return n > 0 && n <= lastPort }
	var causes []metav1.StatusCause
	sound := map[string][]kubevirtv1.PortRange{}
	for j, r := range ranges {
		at := p.Index(j)
		switch {
		case r.Protocol != "TCP" && r.Protocol != "UDP":
			causes = append(causes, invalid(at.Child("protocol"), "Unknown protocol, only TCP or UDP allowed")...)
		case !isPort(r.Start):
			causes = append(causes, invalid(at.Child("start"), "Start must be a valid port number, 0 < x < 65536")...)
		case !isPort(r.End):
			causes = append(causes, invalid(at.Child("end"), "End must be a valid port number, 0 < x < 65536")...)
		case r.Start > r.End:
			causes = append(causes, invalid(at.Child("start"), "Start must be less than or equal to end")...)
		default:
			sound[r.Protocol] = append(sound[r.Protocol], r)
		}
	}
	for _, protocol := range []string{"TCP", "UDP"} {
		list := sound[protocol]
		slices.SortFunc(list, func(a, b kubevirtv1.PortRange) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
		})
		for j := 1; j < len(list); j++ {
			if a, b := list[j-1], list[j]; b.Start <= a.End {
				causes = append(causes, invalid(p, "%s portRanges [%d-%d] and [%d-%d] overlap", protocol, a.Start,
					a.End, b.Start, b.End)...)
			}
		}
	}
	return causes
}

// dhcpOptions are reported at the spec itself, as KubeVirt does.
func dhcpOptions(s subject, i int) []metav1.StatusCause {
	o := s.ifaceOf(i).DHCPOptions
	if o == nil {
		return nil
	}
	var causes []metav1.StatusCause
	known := map[int]bool{}
	for _, p := range o.PrivateOptions {
		known[p.Option] = true
	}
	if len(known) < len(o.PrivateOptions) {
		causes = append(causes, invalid(s.path, "Found Duplicates: you have provided duplicate DHCPPrivateOptions")...)
	}
	for _, p := range o.PrivateOptions {
		if p.Option < firstPrivateDHCP || p.Option > lastPrivateDHCP {
			causes = append(causes, invalid(s.path,
				"provided DHCPPrivateOptions are out of range, must be in range 224 to 254")...)
		}
	}
	return causes
}

func ntpServers(s subject, i int) []metav1.StatusCause {
	o := s.ifaceOf(i).DHCPOptions
	if o == nil {
		return nil
	}
	var causes []metav1.StatusCause
	for j, address := range o.NTPServers {
		if net.ParseIP(address).To4() == nil {
			causes = append(causes, invalid(s.iface(i).Child("dhcpOptions", "ntpServers").Index(j),
				"NTP servers must be a list of valid IPv4 addresses.")...)
		}
	}
	return causes
}
