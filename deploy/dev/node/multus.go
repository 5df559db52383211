package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/internal/pki"
)

// multusFile comes before the node's own network: containerd takes the first. It watches the folder.
const (
	multusFile     = "00-multus.conf"
	ownNetworkFile = "10-virtflow-dev.conflist"
)

// WriteMultus has a node's containerd ask Multus for the networks of pods, which asks the node's own plugins first.
// Their configuration is written into its own: of one that it reads from a file (clusterNetwork) Multus 4.2.4 keeps no
// more than the plugins' types, and cannot take the pod's address back with that.
func WriteMultus(l layout.Layout, n layout.Node) error {
	own, err := os.ReadFile(l.Dir(n, "cni-net.d", ownNetworkFile))
	if err != nil {
		return fmt.Errorf("read the node's own network: %w", err)
	}
	data, err := json.MarshalIndent(map[string]any{
		"cniVersion": "0.4.0", "name": "multus", "type": "multus",
		"capabilities": map[string]bool{"portMappings": true},
		"delegates":    []json.RawMessage{own},
		"confDir":      "/etc/cni/net.d", "cniDir": "/var/lib/cni/multus", "binDir": "/usr/lib/cni",
		"kubeconfig": l.Kubeconfig("multus"),
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the configuration of Multus: %w", err)
	}
	return pki.WriteFile(l.Dir(n, "cni-net.d", multusFile), data, 0o644)
}

// renewMultus writes the file again if it exists: the node's own network may have changed.
func renewMultus(l layout.Layout, n layout.Node) error {
	if _, err := os.Stat(l.Dir(n, "cni-net.d", multusFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return WriteMultus(l, n)
}

// RemoveMultus removes Multus's configuration.
func RemoveMultus(l layout.Layout, n layout.Node) error {
	if err := os.Remove(l.Dir(n, "cni-net.d", multusFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the configuration of Multus: %w", err)
	}
	return nil
}
