package podnet

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// findTap works in the network namespace of the calling thread. It changes nothing: the network's plugin has made the
// device, by KubeVirt's name for a tap device, or as the pod's interface itself. QEMU opens it as the launcher's user.
func (p Plan) findTap(links *netlink.Handle) (Prepared, error) {
	pod, err := podLink(links, p.PodInterface)
	if err != nil {
		return Prepared{}, err
	}
	tap, err := links.LinkByName(p.Tap)
	if isAbsent(err) {
		tap, err = pod, nil
	}
	if err != nil {
		return Prepared{}, fmt.Errorf("looking for %s: %w", p.Tap, err)
	}
	name := tap.Attrs().Name
	switch t := tap.(type) {
	case *netlink.Macvtap:
	case *netlink.Tuntap:
		if t.Mode != netlink.TUNTAP_MODE_TAP {
			return Prepared{}, fmt.Errorf("%s is a tun device: the binding plugin's network must make a tap device", name)
		}
	default:
		return Prepared{}, fmt.Errorf("%s is a %s: the binding plugin's network must make a tap device %s, or %s itself "+
			"as one", name, tap.Type(), p.Tap, p.PodInterface)
	}
	return Prepared{Tap: name, MTU: pod.Attrs().MTU, MAC: pod.Attrs().HardwareAddr}, nil
}
