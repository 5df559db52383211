package podnet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

type sysctl struct{ path, value string }

// sysctls that the guest's network needs, beneath /proc/sys/net.
func sysctls(bridge string) []sysctl {
	return []sysctl{
		// The pod becomes the guest's router.
		{"ipv4/ip_forward", "1"},
		// What was sent to 127.0.0.1 in the pod leaves through the bridge with that source before it is translated.
		{"ipv4/conf/" + bridge + "/route_localnet", "1"},
		// The launcher's DHCP server listens on port 67 without any capability.
		{"ipv4/ip_unprivileged_port_start", "0"},
	}
}

// ensureSysctls writes them for the network namespace of the calling thread: /proc/sys/net shows each thread its own,
// so that it does not matter that the pod's /proc/sys is read-only.
func ensureSysctls(bridge string) error {
	for _, s := range sysctls(bridge) {
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
