package podnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// errNoAddress says that a guest has no address that the pod knows.
var errNoAddress = errors.New("the guest has no address from its pod") //nolint:gochecknoglobals // a constant error

// DialGuest connects to a port of the guest. Behind masquerade it is known by its private address within the pod's
// network namespace. A bridged guest is not reached from there: it is dialled from node, the node's own network
// namespace, by the pod's address, as the kubelet's probes are. The network is "tcp" or "udp". A pod in the node's own
// network namespace is refused.
func (p Plan) DialGuest(
	ctx context.Context, pod Pod, node *os.File, network string, port uint16,
) (net.Conn, error) {
	if err := refuseNodeNetwork(pod.NetworkNamespace); err != nil {
		return nil, err
	}
	from := pod.NetworkNamespace
	if p.Binding == Bridge {
		from = node
	}
	to, err := p.guestAddress(pod)
	if err != nil {
		return nil, fmt.Errorf("dialing VM: %w", err)
	}
	var conn net.Conn
	err = within(from, func() (err error) {
		// An address leaves nothing to resolve and nothing to race: the socket is made on this thread.
		conn, err = new(net.Dialer).DialContext(ctx, network, netip.AddrPortFrom(to, port).String())
		return err //nolint:wrapcheck // KubeVirt's text begins with Go's own
	})
	if err != nil {
		return nil, fmt.Errorf("dialing VM: %w", err)
	}
	return conn, nil
}

// guestAddress is what the guest is dialled by.
func (p Plan) guestAddress(pod Pod) (to netip.Addr, err error) {
	err = within(pod.NetworkNamespace, func() error {
		links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("opening netlink: %w", err)
		}
		defer links.Close()
		link, err := podLink(links, p.PodInterface)
		if err != nil {
			return err
		}
		known, err := addresses(links, link)
		if err != nil {
			return err
		}
		switch ipv4 := firstIPv4(known); {
		case p.Binding == Bridge && ipv4.IsValid():
			to = ipv4.Addr()
		case p.Binding == Bridge:
			return errNoAddress
		case ipv4.IsValid() || len(known) == 0:
			to = guestOf(p.IPv4).Addr()
		default:
			to = guestOf(p.IPv6).Addr()
		}
		return nil
	})
	return to, err
}
