package cluster

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/parts"
	"github.com/virtflow/virtflow/deploy/dev/supervise"
)

// hostCgroup has every process of the cluster that is not in a pod.
const hostCgroup = "virtflow-dev"

// marker is a file that identifies the state folder, so that purging never deletes anything else.
const marker = ".virtflow-dev"

// Cluster is the development cluster of one state folder.
type Cluster struct {
	Layout layout.Layout
	// TemporalDB is the requested database of Temporal, sqlite or postgres; empty means the existing one, else sqlite.
	TemporalDB string
	// Storage requests a CSI driver with a StorageClass. A cluster that has it keeps it.
	Storage bool
	// Out receives the messages for the user.
	Out io.Writer
}

func (c Cluster) say(format string, args ...any) { fmt.Fprintf(c.Out, format+"\n", args...) }

func (c Cluster) builder() parts.Builder {
	return parts.Builder{Repo: c.Layout.Repo, Cache: c.Layout.Cache, Out: c.Out}
}

func (c Cluster) supervisor() *supervise.Client {
	return supervise.NewClient(c.Layout.Control("supervisor"))
}

// lock makes the state folder and takes its lock, so that two runs do not work
// against each other. The kernel drops it when the process ends.
func (c Cluster) lock() (func(), error) {
	for _, dir := range []string{"", "bin", "log", "run"} {
		if err := os.MkdirAll(c.Layout.Path(dir), 0o755); err != nil {
			return nil, fmt.Errorf("make the state folder: %w", err)
		}
	}
	if err := os.WriteFile(c.Layout.Path(marker), nil, 0o644); err != nil {
		return nil, fmt.Errorf("mark the state folder: %w", err)
	}
	f, err := os.OpenFile(c.Layout.Path("lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the state folder: %w", err)
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		c.say("Another run is changing the cluster; waiting for it.")
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, fmt.Errorf("take the lock of the state folder: %w", err)
		}
	}
	return func() { _ = f.Close() }, nil
}

// requireRoot fails early, instead of late in a later step.
func requireRoot() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("the development cluster makes namespaces and cgroups: run it as root, not as user %d",
			os.Geteuid())
	}
	return nil
}

// Kubectl returns the path of the cluster's kubectl.
func (c Cluster) Kubectl() string { return filepath.Join(c.Layout.Path("bin"), "kubectl") }
