package node

import (
	"context"
	"net"

	"github.com/virtflow/virtflow/workers/node/access"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/podnet"
)

// reached is a launcher whose guest can be dialled as well.
type reached struct{ *launchers.Launcher }

// DialGuest connects to a port of the guest, from within its pod.
func (r reached) DialGuest(ctx context.Context, network string, port uint16) (net.Conn, error) {
	namespace, err := r.Peer.NetworkNamespace()
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	ctx, cancel := context.WithTimeout(ctx, guestTimeout)
	defer cancel()
	return podnet.Masquerade().DialGuest(ctx, namespace, network, port)
}

// connectTo reaches a launcher for the access server.
func connectTo(d launchers.Dialer) func(ctx context.Context, pod string) (access.Launcher, error) {
	return func(ctx context.Context, pod string) (access.Launcher, error) {
		l, err := d.Connect(ctx, pod)
		if err != nil {
			return nil, err
		}
		return reached{l}, nil
	}
}
