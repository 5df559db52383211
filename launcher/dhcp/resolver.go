package dhcp

import (
	"net"
	"strings"
)

// Resolver reads a resolv.conf: the name servers with IPv4 addresses, and the search domains.
func Resolver(conf string) (servers []net.IP, search []string) {
	for line := range strings.Lines(conf) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if ip := net.ParseIP(fields[1]).To4(); ip != nil {
				servers = append(servers, ip)
			}
		case "search", "domain":
			search = fields[1:]
		}
	}
	return servers, search
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
