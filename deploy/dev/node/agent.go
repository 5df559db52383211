package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/readiness"
	"github.com/virtflow/virtflow/deploy/dev/supervise"
)

// CSIDriver is the name of the process that attaches volumes on a node.
const CSIDriver = "csi-driver"

// vethTime is how long the host's side may take to connect the veth.
const vethTime = 15 * time.Second

// RunAgent sets the node's network up and keeps containerd, kube-proxy and the kubelet running until ctx is done.
func RunAgent(ctx context.Context, c Config, log zerolog.Logger) error {
	if err := setUpNetwork(ctx, c); err != nil {
		return err
	}
	s, err := supervise.New(supervise.Options{
		Log: log, Logs: c.Layout.Path("log"), Prefix: c.Node.Name,
	}, c.processes())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(ctx, c.Layout.Control(c.Node.Name))
		cancel()
	}()
	s.Run(ctx)
	cancel()
	return <-served
}

func setUpNetwork(ctx context.Context, c Config) error {
	waiting, cancel := context.WithTimeout(ctx, vethTime)
	defer cancel()
	err := poll(waiting, 20*time.Millisecond, func(context.Context) error {
		_, err := net.InterfaceByName("eth0")
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for the node's veth: %w", err)
	}
	steps := [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "replace", fmt.Sprintf("%s/%d", c.Node.IP, layout.NodePrefix), "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"route", "replace", "default", "via", layout.HostIP},
	}
	for _, p := range c.Peers {
		steps = append(steps, []string{"route", "replace", p.PodCIDR, "via", p.IP})
	}
	for _, s := range steps {
		if err := ip(ctx, s...); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) processes() []supervise.Spec {
	kube := func(program string) string { return filepath.Join(c.Programs.Kubernetes, program) }
	path := "PATH=" + c.Programs.Containerd + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	etc := func(file string) string { return c.Layout.Dir(c.Node, "etc", file) }
	return []supervise.Spec{
		{
			Name: "containerd",
			Args: []string{filepath.Join(c.Programs.Containerd, "containerd"), "--config", etc("containerd.toml")},
			Env:  []string{path},
		},
		{
			Name: "kubelet",
			Args: []string{
				kube("kube"), "kubelet", "--config", etc("kubelet.yaml"), "--kubeconfig",
				c.Layout.Kubeconfig(c.Node.Name),
				"--hostname-override", c.Node.Name, "--node-ip", c.Node.IP, "--cert-dir", etc("pki"), "--v=1",
			},
			Env:   []string{path},
			Needs: c.importImages,
		},
		{
			Name: CSIDriver, Needs: c.storageWanted,
			Args: []string{
				c.Layout.CSIDriver(), "--node", c.Node.Name, "--folder", c.Layout.Storage(),
				"--socket", "/var/lib/kubelet/plugins/" + layout.StorageDriver + "/csi.sock",
				"--registry", "/var/lib/kubelet/plugins_registry",
			},
		},
		{
			Name: "kube-proxy",
			Args: []string{kube("kube"), "kube-proxy", "--config", etc("kube-proxy.yaml")},
			Env:  []string{path},
			// Refused once, it waits long before it asks again.
			Needs: func(ctx context.Context) error { return readiness.Wait(ctx, c.Layout) },
		},
	}
}

// storageWanted waits until the cluster is given storage. That starts no node again, and so ends no pod.
func (c Config) storageWanted(ctx context.Context) error {
	return poll(ctx, time.Second, func(context.Context) error {
		_, err := os.Stat(c.Layout.CSIDriver())
		return err
	})
}

// importImages waits for containerd and gives it the images that it lacks of those that every node has from the start.
func (c Config) importImages(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var have string
	err := poll(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		out, err := c.ctr(ctx, "images", "ls", "-q")
		have = out
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for containerd: %w", err)
	}
	for _, ref := range sortedKeys(c.Images) {
		if strings.Contains("\n"+have+"\n", "\n"+ref+"\n") {
			continue
		}
		if _, err := c.ctr(ctx, "images", "import", c.Images[ref]); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) ctr(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"--address", c.Layout.ContainerdSocket(c.Node), "--namespace", "k8s.io"}, args...)
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, filepath.Join(c.Programs.Containerd, "ctr"), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ctr %s: %w: %s", strings.Join(args[4:], " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// poll tries until it works, and returns the last error when ctx is done.
func poll(ctx context.Context, every time.Duration, try func(context.Context) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}
