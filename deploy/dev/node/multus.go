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

// multusFile comes before the node's own network: containerd takes the first. It does so as soon as the file is there.
const (
	multusFile     = "00-multus.conf"
	ownNetworkFile = "10-virtflow-dev.conflist"
)

// WriteMultus has a node's containerd ask Multus for the networks of pods, which asks the node's own plugins first. Of a
// network that is named to it by its file, Multus forgets half until the pod goes: it is given the whole.
func WriteMultus(l layout.Layout, n layout.Node) error {
	own, err := os.ReadFile(l.Dir(n, "cni-net.d", ownNetworkFile))
	if err != nil {
		return fmt.Errorf("read the node's own network: %w", err)
	}
	data, err := json.MarshalIndent(map[string]any{
		"cniVersion": "0.4.0", "name": "multus", "type": "multus",
		"capabilities": map[string]bool{"portMappings": true},
		"delegates":    []json.RawMessage{own},
		"confDir":      "/etc/cni/net.d", "cniDir": "/var/lib/cni/multus",
		"kubeconfig": l.Kubeconfig("multus"),
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the configuration of Multus: %w", err)
	}
	return pki.WriteFile(l.Dir(n, "cni-net.d", multusFile), data, 0o644)
}

// RemoveMultus takes that back.
func RemoveMultus(l layout.Layout, n layout.Node) error {
	if err := os.Remove(l.Dir(n, "cni-net.d", multusFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the configuration of Multus: %w", err)
	}
	return nil
}
