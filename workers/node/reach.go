package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/virtflow/virtflow/workers/node/access"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/podnet"
)

// nodeNetwork is the node's own network namespace: this process sees the node's processes.
const nodeNetwork = "/proc/1/ns/net"

var errNoInterface = errors.New("dialing VM: the guest has no interface on its pod's network")

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
	plans, err := r.Networks(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(plans, podnet.Plan.IsOnPodNetwork)
	if at < 0 {
		return nil, errNoInterface
	}
	node, err := os.Open(nodeNetwork)
	if err != nil {
		return nil, fmt.Errorf("opening the node's network namespace: %w", err)
	}
	defer node.Close()
	return plans[at].DialGuest(ctx, podnet.Pod{NetworkNamespace: namespace}, node, network, port)
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
