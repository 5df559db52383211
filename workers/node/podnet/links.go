package podnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// bridgeMAC is the one that KubeVirt gives to every guest's gateway, so that it stays the same after a migration. Only
// the guest sees it.
var bridgeMAC = net.HardwareAddr{0x02, 0, 0, 0, 0, 0}

// tunDevice is where the node worker itself makes tap devices.
const tunDevice = "/dev/net/tun"

// ensureBridge makes the bridge name with that MAC. Without one of its own a bridge has that of one of its ports.
func ensureBridge(links *netlink.Handle, name string, mac net.HardwareAddr) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = name, mac
	if err := links.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("making the bridge %s: %w", name, err)
	}
	link, err := links.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("looking for the bridge %s: %w", name, err)
	}
	if link.Type() != "bridge" {
		return nil, fmt.Errorf("%s is there already and is a %s, not a bridge", name, link.Type())
	}
	if link.Attrs().HardwareAddr.String() != mac.String() {
		if err := links.LinkSetHardwareAddr(link, mac); err != nil {
			return nil, fmt.Errorf("setting the MAC of %s: %w", name, err)
		}
	}
	return link, nil
}

// giveAddress gives an address to a link. No other link can have it, so it needs no duplicate address detection.
func giveAddress(links *netlink.Handle, link netlink.Link, a netip.Prefix) error {
	address := &netlink.Addr{IPNet: ipNet(a)}
	if a.Addr().Is6() {
		address.Flags = unix.IFA_F_NODAD
	}
	if err := links.AddrReplace(link, address); err != nil {
		return fmt.Errorf("giving %s to %s: %w", a, link.Attrs().Name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// ensureTap makes the persistent tap device for the launcher's user, in the bridge and up.
func (p Plan) ensureTap(links *netlink.Handle, mtu int, bridge netlink.Link) error {
	name := p.Tap
	link, err := links.LinkByName(name)
	if isAbsent(err) {
		if err := makeTap(name, p.Queues > 1); err != nil {
			return fmt.Errorf("making the tap device %s: %w", name, err)
		}
		link, err = links.LinkByName(name)
	}
	if err != nil {
		return fmt.Errorf("looking for the tap device %s: %w", name, err)
	}
	tap, ok := link.(*netlink.Tuntap)
	if !ok || tap.Mode != netlink.TUNTAP_MODE_TAP || tap.Owner != launcherUser {
		return fmt.Errorf("%s is there already and is not a tap device of user %d", name, launcherUser)
	}
	if link.Attrs().MasterIndex != bridge.Attrs().Index {
		if err := links.LinkSetMaster(link, bridge); err != nil {
			return fmt.Errorf("putting %s into %s: %w", name, bridge.Attrs().Name, err)
		}
	}
	if p.isBridged() {
		if err := noIPv6(name); err != nil {
			return err
		}
	}
	return setUp(links, link, mtu)
}

// setUp sets the MTU of a link, and brings the link up.
func setUp(links *netlink.Handle, link netlink.Link, mtu int) error {
	name := link.Attrs().Name
	if link.Attrs().MTU != mtu {
		if err := links.LinkSetMTU(link, mtu); err != nil {
			return fmt.Errorf("setting the MTU of %s to %d: %w", name, mtu, err)
		}
	}
	if err := links.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting %s up: %w", name, err)
	}
	return nil
}

// makeTap makes a tap device that outlives its file descriptor, in the network namespace of the calling thread. The
// kernel takes several queues only for a device that was made for that, and then only such a device.
func makeTap(name string, severalQueues bool) error {
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening %s: %w", tunDevice, err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_TUN_EXCL)
	if severalQueues {
		flags |= unix.IFF_MULTI_QUEUE
	}
	request.SetUint16(flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return err
	}
	// Persistent last: a device that was half made goes away with the file descriptor.
	for _, set := range []struct {
		request uint
		value   int
	}{{unix.TUNSETOWNER, launcherUser}, {unix.TUNSETGROUP, launcherUser}, {unix.TUNSETPERSIST, 1}} {
		if err := unix.IoctlSetInt(fd, set.request, set.value); err != nil {
			return err
		}
	}
	return nil
}
