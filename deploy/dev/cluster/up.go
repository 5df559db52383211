package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/virtflow/virtflow/deploy/dev/controlplane"
	"github.com/virtflow/virtflow/deploy/dev/credentials"
	"github.com/virtflow/virtflow/deploy/dev/debian"
	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/node"
	"github.com/virtflow/virtflow/deploy/dev/parts"
)

// Up installs and builds what is missing, starts what does not run, and returns
// when the cluster can be used.
func (c Cluster) Up(ctx context.Context) error {
	if err := requireRoot(); err != nil {
		return err
	}
	start := time.Now()
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	database, err := chooseDatabase(c.TemporalDB, c.keptDatabase())
	if err != nil {
		return err
	}
	packages := debian.Cluster()
	if database == controlplane.Postgres {
		packages = append(packages, debian.Postgres()...)
	}
	if err := c.InstallPackages(ctx, packages); err != nil {
		return err
	}
	description, err := c.build(ctx)
	if err != nil {
		return err
	}
	description.TemporalDB = database
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.ensureSupervisor(ctx, description); err != nil {
		return err
	}
	if err := c.repairVeths(ctx); err != nil {
		return err
	}
	if err := c.waitUntilUsable(ctx, description); err != nil {
		return err
	}
	c.say("The cluster is up (%.0f s): Kubernetes at %s with %d nodes, Temporal at %s, its web interface at "+
		"http://%s. Next: eval \"$(make env)\", or make demo.",
		time.Since(start).Seconds(), layout.APIServer, len(layout.Nodes()), layout.Temporal, layout.UI)
	return nil
}

// InstallPackages installs those of the Debian packages that are missing.
func (c Cluster) InstallPackages(ctx context.Context, packages []string) error {
	missing, err := debian.Missing(ctx, packages)
	if err != nil {
		return err
	}
	if len(missing) == 0 {
		return nil
	}
	c.say("Installing Debian packages: %s. About 15 s.", strings.Join(missing, " "))
	if err := os.MkdirAll(c.Layout.Cache, 0o755); err != nil {
		return fmt.Errorf("make the cache folder: %w", err)
	}
	return debian.Install(ctx, missing, filepath.Join(c.Layout.Cache, "apt.log"))
}

// build builds the parts that are missing and describes the cluster made of them.
func (c Cluster) build(ctx context.Context) (controlplane.Cluster, error) {
	d := controlplane.Cluster{Layout: c.Layout, Images: map[string]string{}}
	for _, want := range []struct {
		part   parts.Part
		folder *string
	}{
		{parts.Kubernetes(), &d.Programs.Kubernetes},
		{parts.Containerd(), &d.Programs.Containerd},
		{parts.Storage(), &d.Programs.Storage},
		{parts.Temporal(), &d.Temporal},
	} {
		folder, err := c.builder().Ensure(ctx, want.part)
		if err != nil {
			return d, err
		}
		*want.folder = folder
	}
	// The tag follows the build, so that a node never keeps an image of an earlier one.
	tag := d.Programs.Kubernetes[strings.LastIndexByte(d.Programs.Kubernetes, '-')+1:]
	if err := addImages(&d, tag); err != nil {
		return d, err
	}
	return d, c.linkPrograms(d)
}

// linkPrograms puts the commands for users where `env` points PATH to.
func (c Cluster) linkPrograms(d controlplane.Cluster) error {
	for name, target := range map[string]string{
		"kubectl": filepath.Join(d.Programs.Kubernetes, "kube"),
		"ctr":     filepath.Join(d.Programs.Containerd, "ctr"),
	} {
		if err := link(target, c.Layout.Path("bin", name)); err != nil {
			return err
		}
	}
	return nil
}

// Tools builds the command lines of Temporal and of KubeVirt, and puts them beside kubectl.
func (c Cluster) Tools(ctx context.Context) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	for name, part := range map[string]parts.Part{"temporal": parts.TemporalCLI(), "tctl": parts.Tctl(),
		"virtctl": parts.Virtctl()} {
		folder, err := c.builder().Ensure(ctx, part)
		if err != nil {
			return err
		}
		if err := link(filepath.Join(folder, name), c.Layout.Path("bin", name)); err != nil {
			return err
		}
	}
	c.say("temporal, tctl and virtctl are in %s: eval \"$(make env)\" puts them on the PATH and tells them where "+
		"Temporal is.", c.Layout.Path("bin"))
	return nil
}

// link makes a symbolic link, or changes where it points, at once.
func link(target, link string) error {
	if have, err := os.Readlink(link); err == nil && have == target {
		return nil
	}
	partial := link + ".partial"
	_ = os.Remove(partial) // left by a killed run
	if err := os.Symlink(target, partial); err != nil {
		return fmt.Errorf("link %s: %w", link, err)
	}
	if err := os.Rename(partial, link); err != nil {
		return fmt.Errorf("link %s: %w", link, err)
	}
	return nil
}

func (c Cluster) prepare() error {
	if err := credentials.Ensure(c.Layout); err != nil {
		return err
	}
	return node.MakeMountpoints(c.Layout.Path("mountpoints"))
}

// repairVeths puts back the bridge and the nodes' veths if somebody took them away.
func (c Cluster) repairVeths(ctx context.Context) error {
	if err := node.EnsureBridge(ctx); err != nil {
		return err
	}
	report, err := c.supervisor().Report(ctx)
	if err != nil {
		return err
	}
	for _, p := range report.Processes {
		n, err := layout.NodeNamed(p.Name)
		if err != nil || p.PID == 0 {
			continue
		}
		if err := node.ConnectVeth(ctx, n, p.PID, true); err != nil {
			return err
		}
	}
	return nil
}
