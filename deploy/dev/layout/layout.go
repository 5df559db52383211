package layout

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/virtflow/virtflow/deploy/checkout"
)

// maxState is the longest path of the state folder, in bytes. A Unix socket's
// path has at most 107, and the longest one beneath is that of a node's containerd.
const maxState = 64

// Layout is where everything of one development cluster lies.
type Layout struct {
	// State holds what the running cluster writes: its databases, keys, logs, nodes.
	State string
	// Cache holds finished builds, one folder each, named by their content.
	Cache string
	// Repo is the checkout that the cluster is built from.
	Repo string
}

// FromEnvironment finds the checkout that the working directory is in, and
// takes the folders from VIRTFLOW_STATE and VIRTFLOW_CACHE.
func FromEnvironment() (Layout, error) {
	repo, err := checkout.Root()
	if err != nil {
		return Layout{}, err
	}
	l := Layout{State: os.Getenv("VIRTFLOW_STATE"), Cache: os.Getenv("VIRTFLOW_CACHE"), Repo: repo}
	if l.State == "" {
		l.State = "/var/lib/virtflow-dev"
	}
	if l.Cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return Layout{}, fmt.Errorf("find the cache folder: %w; set VIRTFLOW_CACHE", err)
		}
		l.Cache = filepath.Join(home, ".cache", "virtflow")
	}
	return l, l.validate()
}

func (l Layout) validate() error {
	for name, path := range map[string]string{"VIRTFLOW_STATE": l.State, "VIRTFLOW_CACHE": l.Cache} {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%s is %q: give an absolute path", name, path)
		}
		if path == "/run" || strings.HasPrefix(path, "/run/") || strings.HasPrefix(path, "/var/run/") {
			return fmt.Errorf("%s is %q: choose a folder outside /run, which every node has for itself", name, path)
		}
	}
	if len(l.State) > maxState {
		return fmt.Errorf("VIRTFLOW_STATE is %q: choose a path of at most %d bytes, or sockets beneath it cannot "+
			"be reached", l.State, maxState)
	}
	return nil
}

// Path is a path beneath the state folder.
func (l Layout) Path(elem ...string) string {
	return filepath.Join(append([]string{l.State}, elem...)...)
}

// Program is the copy of this program that the supervisor and the nodes run.
func (l Layout) Program() string { return l.Path("bin", "virtflow-dev") }

// Log is the log file of one process.
func (l Layout) Log(process string) string { return l.Path("log", process+".log") }

// PKI is a file of one authority, such as ("kubernetes", "ca.crt").
func (l Layout) PKI(authority, file string) string { return l.Path("pki", authority, file) }

// Kubeconfig is the file that lets one user of Kubernetes in.
func (l Layout) Kubeconfig(user string) string { return l.Path("kubeconfig", user+".conf") }

// Control is the socket of a supervisor: "supervisor", or a node's name.
func (l Layout) Control(name string) string { return l.Path("run", name+".sock") }

// CNIPlugins is where nodes find network plugins beside Debian's.
func (l Layout) CNIPlugins() string { return l.Path("cni") }

// Storage is the folder of the CSI driver's volumes and snapshots, which the nodes share.
func (l Layout) Storage() string { return l.Path("storage") }

// CSIDriver is where nodes find the CSI driver; absent until make storage.
func (l Layout) CSIDriver() string { return l.Path("bin", "csi-driver") }

// Audit is the apiserver's audit log.
func (l Layout) Audit() string { return l.Path("audit.log") }
