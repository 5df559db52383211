package podnet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

type sysctl struct{ path, value string }

// forMasquerade returns the settings that a masqueraded guest needs, beneath /proc/sys/net.
func forMasquerade(bridge string) []sysctl {
	return []sysctl{
		// The pod becomes the guest's router.
		{"ipv4/ip_forward", "1"},
		// What was sent to 127.0.0.1 in the pod leaves through the bridge with that source before it is translated.
		{"ipv4/conf/" + bridge + "/route_localnet", "1"},
		unprivilegedPorts(),
	}
}

// forBridge returns the settings that a bridged guest needs.
func forBridge(bridge string) []sysctl {
	return []sysctl{
		// No stack here answers for an address that the guest has now.
		{"ipv4/conf/" + bridge + "/arp_ignore", "1"},
		// The pod's interface still has that address, and what comes from there is the guest renewing its lease.
		{"ipv4/conf/" + bridge + "/accept_local", "1"},
		// Strictly, that address would have to come from where the pod's interface is.
		{"ipv4/conf/" + bridge + "/rp_filter", "2"},
		unprivilegedPorts(),
	}
}

// noIPv6 keeps the kernel from speaking for itself on a link of a bridged guest, where the kernel has IPv6 at all. It
// comes before the link goes up.
func noIPv6(link string) error {
	err := ensureSysctls([]sysctl{{"ipv6/conf/" + link + "/disable_ipv6", "1"}})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// routeOnly has what a masqueraded guest sends to its own pod's address be routed, where the module br_netfilter is
// loaded, as many clusters want it: that would translate it in the bridge already, which sends nothing back by the port
// that it came from. Only the bridges of this pod are meant. A kernel before Linux 5.3 has no such setting for a pod.
func routeOnly() error {
	for _, name := range []string{"iptables", "ip6tables"} {
		err := ensureSysctls([]sysctl{{"bridge/bridge-nf-call-" + name, "0"}})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// unprivilegedPorts: the launcher's DHCP servers listen without any capability.
func unprivilegedPorts() sysctl { return sysctl{"ipv4/ip_unprivileged_port_start", "0"} }

// ensureSysctls writes settings for the network namespace of the calling thread: /proc/sys/net shows each thread its
// own, so that it does not matter that the pod's /proc/sys is read-only.
func ensureSysctls(settings []sysctl) error {
	for _, s := range settings {
		path := filepath.Join("/proc/sys/net", s.path)
		now, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading a kernel setting: %w", err)
		}
		if strings.TrimSpace(string(now)) == s.value {
			continue
		}
		if err := os.WriteFile(path, []byte(s.value), 0); err != nil {
			return fmt.Errorf("writing a kernel setting: %w", err)
		}
	}
	return nil
}
