package controlplane

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/node"
	"github.com/virtflow/virtflow/internal/pki"
)

// Cluster is the description by which `up` starts the supervisor: the folders, and the builds to run.
type Cluster struct {
	Layout   layout.Layout `json:"layout"`
	Programs node.Programs `json:"programs"`
	// Storage is the folder that has the CSI driver and its controllers; empty without storage.
	Storage string `json:"storage,omitempty"`
	// Temporal is the folder that has Temporal's server.
	Temporal string `json:"temporal"`
	// TemporalDB is where Temporal keeps its histories: SQLite or Postgres.
	TemporalDB string `json:"temporalDB"`
	// PauseImage and CoreDNSImage are the references of the cluster's own images.
	PauseImage   string `json:"pauseImage"`
	CoreDNSImage string `json:"coreDNSImage"`
	// Images are the archives that every node has from the start, by reference.
	Images map[string]string `json:"images"`
}

func (c Cluster) encode() ([]byte, error) {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the cluster's description: %w", err)
	}
	return data, nil
}

// Save writes the description down and returns it.
func (c Cluster) Save() ([]byte, error) {
	data, err := c.encode()
	if err != nil {
		return nil, err
	}
	return data, pki.WriteFile(file(c.Layout), data, 0o644)
}

// Load reads the description that was saved last; fs.ErrNotExist when there was none.
func Load(l layout.Layout) (Cluster, error) {
	var c Cluster
	data, err := os.ReadFile(file(l))
	if err != nil {
		return c, fmt.Errorf("read the cluster's description: %w", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("read the cluster's description: %w", err)
	}
	return c, nil
}

func file(l layout.Layout) string { return l.Path("run", "cluster.json") }

// NodeConfig is the configuration of one node of the cluster.
func (c Cluster) NodeConfig(n layout.Node) node.Config {
	config := node.Config{Node: n, Layout: c.Layout, Programs: c.Programs, Images: c.Images, PauseImage: c.PauseImage}
	for _, other := range layout.Nodes() {
		if other.Name != n.Name {
			config.Peers = append(config.Peers, other)
		}
	}
	return config
}
