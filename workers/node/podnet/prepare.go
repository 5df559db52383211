package podnet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Pod is where a plan is carried out.
type Pod struct {
	NetworkNamespace *os.File
}

// Prepare carries the plan out and says what the guest is to use. It is idempotent, and nothing of the node's own
// network is touched: a pod in the node's network namespace is refused.
func (p Plan) Prepare(ctx context.Context, pod Pod) (Prepared, error) {
	if err := refuseNodeNetwork(pod.NetworkNamespace); err != nil {
		return Prepared{}, err
	}
	var done Prepared
	err := inNamespace(pod.NetworkNamespace, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("opening netlink: %w", err)
		}
		defer links.Close()
		switch {
		case p.isBridged():
			done, err = p.bridge(links)
		case p.Binding == Tap:
			done, err = p.findTap(links)
		default:
			done, err = p.masquerade(links)
		}
		return err
	})
	if err != nil {
		return Prepared{}, fmt.Errorf("preparing the pod's network: %w", err)
	}
	return done, nil
}

// podLink is the pod's own interface; KubeVirt's words where there is none.
func podLink(links *netlink.Handle, name string) (netlink.Link, error) {
	link, err := links.LinkByName(name)
	switch {
	case isAbsent(err):
		return nil, fmt.Errorf("pod link (%s) is missing", name)
	case err != nil:
		return nil, fmt.Errorf("looking for %s: %w", name, err)
	}
	return link, nil
}

func isAbsent(err error) bool { return errors.As(err, &netlink.LinkNotFoundError{}) }

// addresses of a link that others know, in the order that the kernel has them.
func addresses(links *netlink.Handle, link netlink.Link) ([]netip.Prefix, error) {
	all, err := links.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("listing the addresses of %s: %w", link.Attrs().Name, err)
	}
	var out []netip.Prefix
	for _, a := range all {
		ip, ok := netip.AddrFromSlice(a.IP)
		if bits, _ := a.Mask.Size(); ok && ip.Unmap().IsGlobalUnicast() {
			out = append(out, netip.PrefixFrom(ip.Unmap(), bits))
		}
	}
	return out, nil
}

func firstIPv4(all []netip.Prefix) netip.Prefix {
	if i := slices.IndexFunc(all, func(p netip.Prefix) bool { return p.Addr().Is4() }); i >= 0 {
		return all[i]
	}
	return netip.Prefix{}
}
