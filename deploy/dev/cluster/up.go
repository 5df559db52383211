package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/virtflow/virtflow/deploy/dev/controlplane"
	"github.com/virtflow/virtflow/deploy/dev/credentials"
	"github.com/virtflow/virtflow/deploy/dev/debian"
	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/node"
	"github.com/virtflow/virtflow/deploy/dev/parts"
)

// Up installs and builds what is missing, starts what does not run, and returns when the cluster can be used.
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
	c.Storage = c.Storage || c.hasStorage()
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
	if err := c.linkDriver(ctx, description.Storage); err != nil {
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

// InstallPackages installs the Debian packages that are missing.
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
	folders, err := c.builder().EnsureAll(ctx, c.parts())
	if err != nil {
		return d, err
	}
	d.Programs.Kubernetes, d.Programs.Containerd, d.Temporal = folders[0], folders[1], folders[2]
	if c.Storage {
		d.Storage = folders[3]
	}
	// The tag follows the build, so that a node never keeps an image of an earlier one.
	tag := d.Programs.Kubernetes[strings.LastIndexByte(d.Programs.Kubernetes, '-')+1:]
	if err := addImages(&d, tag); err != nil {
		return d, err
	}
	return d, c.linkPrograms(d)
}

// parts returns the parts of the cluster: Kubernetes, containerd, Temporal, and storage if it is requested.
func (c Cluster) parts() []parts.Part {
	all := []parts.Part{parts.Kubernetes(), parts.Containerd(), parts.Temporal()}
	if c.Storage {
		all = append(all, parts.Storage())
	}
	return all
}

// Announce prints what has to be built first, and about how long that takes here; nothing if all is built. The parts
// are followed by the step after the cluster: its name, and how long it takes on two cores.
func (c Cluster) Announce(then string, cold time.Duration) error {
	c.Storage = c.Storage || c.hasStorage()
	missing, about, err := c.builder().Missing(c.parts())
	if err != nil || len(missing) == 0 {
		return err
	}
	var names []string
	for _, p := range missing {
		names = append(names, fmt.Sprintf("%s %s", p.Name, p.Cold))
	}
	if then != "" {
		names = append(names, fmt.Sprintf("%s %s", then, cold))
		about += parts.Scale(cold, runtime.NumCPU())
	}
	c.say("The first run builds from source: about %.0f minutes on the %d processors here when nothing is compiled yet "+
		"(on two: %s). Later runs take a minute.", about.Minutes(), runtime.NumCPU(), strings.Join(names, ", "))
	return nil
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
	c.say("temporal, tctl and virtctl are in %s: eval \"$(make env)\" puts them on the PATH and sets where "+
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

// repairVeths restores the bridge and the nodes' veths if they were removed.
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
