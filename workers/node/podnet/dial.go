package podnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// DialGuest connects to a port of the guest from within the pod's network namespace, where the guest is known by its
// private address. The network is "tcp" or "udp". A pod in the node's own network namespace is refused.
func (p Plan) DialGuest(ctx context.Context, namespace *os.File, network string, port uint16) (net.Conn, error) {
	if err := refuseNodeNetwork(namespace); err != nil {
		return nil, err
	}
	var conn net.Conn
	err := within(namespace, func() (err error) {
		// An address leaves nothing to resolve and nothing to race: the socket is made on this thread.
		conn, err = new(net.Dialer).DialContext(ctx, network, netip.AddrPortFrom(p.Guest, port).String())
		return err //nolint:wrapcheck // KubeVirt's text begins with Go's own
	})
	if err != nil {
		return nil, fmt.Errorf("dialing VM: %w", err)
	}
	return conn, nil
}
