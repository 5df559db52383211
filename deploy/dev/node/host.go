package node

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/virtflow/virtflow/deploy/dev/layout"
)

// bridgeMAC is the bridge's own MAC: without one it uses that of a veth, and changes it when that veth is removed,
// which other hosts do not learn for a while.
const bridgeMAC = "02:76:66:00:00:01"

// EnsureBridge makes the bridge that joins the nodes, the host's address on it,
// and the routes to pods and Services. What is there is kept.
func EnsureBridge(ctx context.Context) error {
	if _, err := net.InterfaceByName(layout.Bridge); err != nil {
		if err := ip(ctx, "link", "add", layout.Bridge, "address", bridgeMAC, "type", "bridge"); err != nil {
			return err
		}
	}
	steps := [][]string{
		{"addr", "replace", fmt.Sprintf("%s/%d", layout.HostIP, layout.NodePrefix), "dev", layout.Bridge},
		{"link", "set", layout.Bridge, "up"},
	}
	for _, n := range layout.Nodes() {
		steps = append(steps, []string{"route", "replace", n.PodCIDR, "via", n.IP})
	}
	// ClusterIPs from the host: the first node's kube-proxy translates them.
	steps = append(steps, []string{"route", "replace", layout.ServiceCIDR, "via", layout.Nodes()[0].IP})
	for _, s := range steps {
		if err := ip(ctx, s...); err != nil {
			return err
		}
	}
	return nil
}

// RemoveBridge takes away the bridge, its routes, and every node's veth.
func RemoveBridge(ctx context.Context) error {
	links := []string{layout.Bridge}
	for _, n := range layout.Nodes() {
		links = append(links, n.Link())
	}
	for _, link := range links {
		if _, err := net.InterfaceByName(link); err != nil {
			continue
		}
		// The kernel removes a veth whose node has ended, too: losing that race is fine.
		if err := ip(ctx, "link", "del", link); err != nil {
			if _, gone := net.InterfaceByName(link); gone == nil {
				return err
			}
		}
	}
	return nil
}

// ConnectVeth connects the network namespace of a process, which the node's PID 1 is,
// to the bridge. With keep, a veth that is there stays as it is.
func ConnectVeth(ctx context.Context, n layout.Node, pid int, keep bool) error {
	if _, err := net.InterfaceByName(n.Link()); err == nil {
		if keep {
			return ip(ctx, "link", "set", n.Link(), "master", layout.Bridge, "up")
		}
		// It belongs to the node's last life.
		_ = ip(ctx, "link", "del", n.Link())
	}
	if err := EnsureBridge(ctx); err != nil {
		return err
	}
	if err := ip(ctx, "link", "add", n.Link(), "type", "veth", "peer", "name", "eth0", "netns",
		strconv.Itoa(pid)); err != nil {
		return err
	}
	return ip(ctx, "link", "set", n.Link(), "master", layout.Bridge, "up")
}

// mountpoints are the folders of the machine over which a node mounts its own.
func mountpoints() []string {
	return []string{"/etc/cni/net.d", "/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/virtflow",
		"/var/log/containers", "/var/log/pods"}
}

// MakeMountpoints makes the folders over which nodes mount, and records in a file which of them were missing.
func MakeMountpoints(note string) error {
	made := map[string]bool{}
	if data, err := os.ReadFile(note); err == nil {
		for _, dir := range strings.Fields(string(data)) {
			made[dir] = true
		}
	}
	for _, dir := range mountpoints() {
		for _, d := range []string{parent(dir), dir} {
			if _, err := os.Stat(d); err != nil {
				made[d] = true
			}
		}
	}
	// Recorded before they are made: a kill in between must not lose any.
	if err := os.WriteFile(note, []byte(strings.Join(sortedKeys(made), "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("note the folders made: %w", err)
	}
	for _, dir := range mountpoints() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a folder to mount over: %w", err)
		}
	}
	return nil
}

// RemoveMountpoints removes the folders that MakeMountpoints made, unless they have files.
func RemoveMountpoints(note string) {
	data, err := os.ReadFile(note)
	if err != nil {
		return
	}
	dirs := strings.Fields(string(data))
	slices.Reverse(dirs) // the inner ones first
	for _, dir := range dirs {
		_ = os.Remove(dir) // fails when it is not empty
	}
	_ = os.Remove(note)
}

func parent(dir string) string { return dir[:strings.LastIndexByte(dir, '/')] }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// ip runs the command of that name.
func ip(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
