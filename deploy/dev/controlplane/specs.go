package controlplane

import (
	"context"
	"fmt"
	"os"

	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/node"
	"github.com/virtflow/virtflow/deploy/dev/supervise"
)

// Specs are the processes on the host, in the order in which they are shown. It writes the files that they read.
func (c Cluster) Specs() ([]supervise.Spec, error) {
	if err := c.writeFiles(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Layout.Path("etcd"), 0o700); err != nil {
		return nil, fmt.Errorf("make etcd's folder: %w", err)
	}
	specs := []supervise.Spec{c.etcd(), c.apiserver(), c.controllerManager(), c.scheduler()}
	specs = append(specs, c.storage()...)
	for _, n := range layout.Nodes() {
		s, err := c.node(n)
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
	}
	if c.TemporalDB == Postgres {
		postgres, err := c.postgres()
		if err != nil {
			return nil, err
		}
		specs = append(specs, postgres)
	}
	temporal, err := c.temporal()
	if err != nil {
		return nil, err
	}
	return append(specs, temporal), nil
}

func (c Cluster) node(n layout.Node) (supervise.Spec, error) {
	fingerprint, err := c.NodeConfig(n).Write()
	if err != nil {
		return supervise.Spec{}, err
	}
	return supervise.Spec{
		Name: n.Name, Isolated: true, Fingerprint: fingerprint,
		// The apiserver's address and the key folder are all that a node needs to come up.
		Args: []string{c.Layout.Program(), "node-init", n.Name},
		Env:  []string{"VIRTFLOW_STATE=" + c.Layout.State, "VIRTFLOW_CACHE=" + c.Layout.Cache},
		Started: func(ctx context.Context, pid int, adopted bool) error {
			return node.ConnectVeth(ctx, n, pid, adopted)
		},
	}, nil
}
