package podnet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// User and group that launchers run as and that own the tap device: qemu's in KubeVirt's images.
const launcherUser = 107

// Plan says what the network of one pod is to be.
type Plan struct {
	PodInterface string
	Bridge       string
	Tap          string
	Gateway      netip.Prefix // of the bridge
	Guest        netip.Addr
}

// Masquerade is KubeVirt's plan for the pod network (its defaults for names, addresses and the bridge's MAC).
func Masquerade() Plan {
	return Plan{
		PodInterface: "eth0",
		Bridge:       "k6t-eth0",
		Tap:          "tap0",
		Gateway:      netip.MustParsePrefix("10.0.2.1/24"),
		Guest:        netip.MustParseAddr("10.0.2.2"),
	}
}

// Pod is where a plan is carried out.
type Pod struct {
	NetworkNamespace *os.File
}

// Prepare carries the plan out and returns the MTU that the guest is to use. It is idempotent, and nothing of the
// node's own network is touched: a pod in the node's network namespace is refused.
func (p Plan) Prepare(ctx context.Context, pod Pod) (mtu int, err error) {
	if err := refuseNodeNetwork(pod.NetworkNamespace); err != nil {
		return 0, err
	}
	err = within(pod.NetworkNamespace, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		mtu, err = p.apply()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("preparing the pod's network: %w", err)
	}
	return mtu, nil
}

// apply works in the network namespace of the calling thread.
func (p Plan) apply() (mtu int, err error) {
	links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return 0, fmt.Errorf("opening netlink: %w", err)
	}
	defer links.Close()
	pod, err := links.LinkByName(p.PodInterface)
	if err != nil {
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			return 0, fmt.Errorf("pod link (%s) is missing", p.PodInterface)
		}
		return 0, fmt.Errorf("looking for %s: %w", p.PodInterface, err)
	}
	mtu = pod.Attrs().MTU
	bridge, err := ensureBridge(links, p.Bridge, mtu, p.Gateway)
	if err != nil {
		return 0, err
	}
	if err := ensureTap(links, p.Tap, mtu, bridge); err != nil {
		return 0, err
	}
	if err := ensureSysctls(p.Bridge); err != nil {
		return 0, err
	}
	return mtu, applyRules(p.chains())
}
