package dhcp

import (
	"net"
	"strings"
)

// Resolver parses a resolv.conf and returns the name servers of each family, and the search domains.
func Resolver(conf string) (servers, servers6 []net.IP, search []string) {
	for line := range strings.Lines(conf) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			ip := net.ParseIP(fields[1])
			if v4 := ip.To4(); v4 != nil {
				servers = append(servers, v4)
			} else if ip != nil {
				servers6 = append(servers6, ip)
			}
		case "search", "domain":
			search = fields[1:]
		}
	}
	return servers, servers6, search
}

// WithSubdomain puts the domain of a VMI with spec.subdomain first, as KubeVirt does: its pod's name is then found in
// the headless Service of that name.
func WithSubdomain(search []string, subdomain, namespace string) []string {
	if subdomain == "" {
		return search
	}
	for _, d := range search {
		if strings.HasPrefix(d, namespace+".svc.") {
			return append([]string{subdomain + "." + d}, search...)
		}
	}
	return search
}
