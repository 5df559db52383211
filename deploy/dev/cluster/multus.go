package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/node"
	"github.com/virtflow/virtflow/deploy/dev/parts"
)

//go:embed files/multus.yaml
var multusManifest []byte

// networkModule has the definition of the kind NetworkAttachmentDefinition.
const networkModule = "github.com/k8snetworkplumbingwg/network-attachment-definition-client"

// Multus has the nodes of the running cluster give pods the further networks that they ask for, until WithoutMultus.
// Pods that ask for none are made as before, but for Multus's own requests to the API server.
func (c Cluster) Multus(ctx context.Context) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	folder, err := c.builder().Ensure(ctx, parts.Multus())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Layout.CNIPlugins(), 0o755); err != nil {
		return fmt.Errorf("make the folder of network plugins: %w", err)
	}
	if err := link(filepath.Join(folder, "multus"), filepath.Join(c.Layout.CNIPlugins(), "multus")); err != nil {
		return err
	}
	kind, err := c.definitions(ctx, parts.Multus(), networkModule, "artifacts/networks-crd.yaml")
	if err != nil {
		return err
	}
	for _, manifest := range [][]byte{kind, multusManifest} {
		if err := c.Apply(ctx, manifest); err != nil {
			return err
		}
	}
	for _, n := range layout.Nodes() {
		if err := node.WriteMultus(c.Layout, n); err != nil {
			return err
		}
	}
	c.say("Pods get the networks that their annotation k8s.v1.cni.cncf.io/networks names. make multus OFF=1 ends that.")
	return nil
}

// WithoutMultus has nodes give pods their own network only. What pods have already, they keep until they go.
func (c Cluster) WithoutMultus() error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	for _, n := range layout.Nodes() {
		if err := node.RemoveMultus(c.Layout, n); err != nil {
			return err
		}
	}
	return nil
}
