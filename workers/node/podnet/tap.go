package podnet

import (
	"fmt"
	"math"

	"github.com/vishvananda/netlink"
)

// noOwner is netlink's owner of a tap device that any user with the capability may open.
const noOwner = math.MaxUint32

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
	switch t, isTuntap := tap.(*netlink.Tuntap); {
	case isTuntap && t.Mode != netlink.TUNTAP_MODE_TAP:
		return Prepared{}, fmt.Errorf("%s is a tun device: the binding plugin's network must make a tap device", name)
	case isTuntap && t.Owner != launcherUser && t.Owner != noOwner:
		return Prepared{}, fmt.Errorf("the tap device %s is of user %d: the binding plugin's network must make it for user %d",
			name, t.Owner, launcherUser)
	case !isTuntap:
		return Prepared{}, fmt.Errorf("%s is a %s: the binding plugin's network must make a tap device %s, or %s itself "+
			"as one", name, tap.Type(), p.Tap, p.PodInterface)
	}
	return Prepared{Tap: name, MTU: pod.Attrs().MTU, MAC: pod.Attrs().HardwareAddr}, nil
}
