package podnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// arrivalTimeout is how long a packet may take from the node to a pod of its own: neighbours have to be found first.
const arrivalTimeout = 3 * time.Second

// errNoAddress is the error for a guest without an address that the pod knows.
var errNoAddress = errors.New("the guest has no address from its pod")

// errTap is the error for a guest whose network nothing here knows.
var errTap = errors.New("the guest's binding plugin has made its network device: connect by that network")

// DialGuest connects to a port of the guest. Behind masquerade it is known by its private address within the pod's
// network namespace. A bridged guest is not reached from there: it is dialled from node, the node's own network
// namespace, by the pod's address, as the kubelet's probes are, and refused unless that leads to the pod: an empty
// packet goes before all others where the network is "udp"; the other one is "tcp". A pod in the node's own network
// namespace is refused.
func (p Plan) DialGuest(
	ctx context.Context, pod Pod, node *os.File, network string, port uint16,
) (net.Conn, error) {
	if err := refuseNodeNetwork(pod.NetworkNamespace); err != nil {
		return nil, err
	}
	from := pod.NetworkNamespace
	switch {
	case p.Binding == Tap:
		return nil, fmt.Errorf("dialing VM: %w", errTap)
	case p.isBridged():
		from = node
	}
	to, err := p.guestAddress(pod)
	if err != nil {
		return nil, fmt.Errorf("dialing VM: %w", err)
	}
	where := netip.AddrPortFrom(to, port)
	dial := func() (conn net.Conn, err error) {
		err = inNamespace(from, func() (err error) {
			// An address leaves nothing to resolve and nothing to race: the socket is made on this thread.
			conn, err = new(net.Dialer).DialContext(ctx, network, where.String())
			return err // KubeVirt's text begins with Go's own
		})
		return conn, err
	}
	var conn net.Conn
	if p.isBridged() {
		conn, err = p.dialWatched(pod, network, where, dial)
	} else {
		conn, err = dial()
	}
	if err != nil {
		return nil, fmt.Errorf("dialing VM: %w", err)
	}
	return conn, nil
}

// dialWatched has a connection refused whose packets do not come in by the pod's interface. It does not say then what
// has answered elsewhere.
func (p Plan) dialWatched(
	pod Pod, network string, to netip.AddrPort, dial func() (net.Conn, error),
) (net.Conn, error) {
	watched, err := p.watch(pod, network, to)
	if err != nil {
		return nil, err
	}
	defer watched.file.Close()
	conn, failed := dial()
	came := false
	switch {
	case failed != nil:
		came, err = watched.hasPacket(0, func([]byte) bool { return true })
	case network == "udp":
		if _, err = conn.Write(nil); err == nil {
			came, err = watched.hasArrived(conn, arrivalTimeout)
		}
	default:
		came, err = watched.hasArrived(conn, 0)
	}
	switch {
	case err == nil && came:
		return conn, failed
	case err == nil:
		err = fmt.Errorf("the address %s of its pod leads elsewhere, or the guest does not use it", to.Addr())
	}
	if conn != nil {
		conn.Close()
	}
	return nil, err
}

// guestAddress returns the address at which to dial the guest.
func (p Plan) guestAddress(pod Pod) (to netip.Addr, err error) {
	err = inNamespace(pod.NetworkNamespace, func() error {
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
		case p.isBridged() && ipv4.IsValid():
			to = ipv4.Addr()
		case p.isBridged():
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
