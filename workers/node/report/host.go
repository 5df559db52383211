package report

import (
	"runtime"
	"strings"
)

// Host has the CPU of a node.
type Host struct {
	Arch      string
	CPUVendor string
	CPUModel  string
}

// vendors by the names that libvirt, and so KubeVirt's node labels, give them.
func vendor(id string) string {
	switch id {
	case "GenuineIntel":
		return "Intel"
	case "AuthenticAMD":
		return "AMD"
	case "HygonGenuine":
		return "Hygon"
	}
	return id
}

// ReadHost returns the Host that /proc/cpuinfo describes.
func ReadHost(cpuinfo string) Host {
	h := Host{Arch: runtime.GOARCH}
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "vendor_id":
			h.CPUVendor = vendor(value)
		case "model name":
			h.CPUModel = value
		case "":
			return h // the first processor's part ends
		}
	}
	return h
}
