package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/node"
	"github.com/virtflow/virtflow/deploy/dev/parts"
)

//go:embed files/multus.yaml
var multusManifest []byte

// networkModule has the definition of the kind NetworkAttachmentDefinition, which is networkKind.
const (
	networkModule = "github.com/k8snetworkplumbingwg/network-attachment-definition-client"
	networkKind   = "network-attachment-definitions.k8s.cni.cncf.io"
)

// networksAnnotation is how a pod asks for further networks.
const networksAnnotation = "k8s.v1.cni.cncf.io/networks"

// Multus makes the nodes of the running cluster connect pods to further networks on request, until WithoutMultus. Pods
// that request none are made as before, except for Multus's own requests to the API server.
func (c Cluster) Multus(ctx context.Context) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(c.Layout.Kubeconfig("multus")); err != nil {
		return fmt.Errorf("the cluster does not run, or was started by an older checkout: run make up first: %w", err)
	}
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
	_, err = c.Run(ctx, nil, "wait", "--for=condition=Established", "--timeout=60s", "crd/"+networkKind)
	if err != nil {
		return err
	}
	for _, n := range layout.Nodes() {
		if err := node.WriteMultus(c.Layout, n); err != nil {
			return err
		}
	}
	c.say("Pods get the networks that their annotation %s names. make multus OFF=1 ends that.", networksAnnotation)
	return nil
}

// WithoutMultus makes nodes connect pods to their own network only. Pods with further networks must be deleted before:
// afterwards those would not be released.
func (c Cluster) WithoutMultus(ctx context.Context) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	var pods struct {
		Items []struct {
			Metadata struct {
				Namespace   string            `json:"namespace"`
				Name        string            `json:"name"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if err := c.Get(ctx, &pods, "pods", "--all-namespaces"); err != nil {
		return err
	}
	var have []string
	for _, p := range pods.Items {
		if m := p.Metadata; m.Annotations[networksAnnotation] != "" {
			have = append(have, m.Namespace+"/"+m.Name)
		}
	}
	if len(have) > 0 {
		return fmt.Errorf("pods have further networks, which only Multus takes back: delete %s first",
			strings.Join(have, ", "))
	}
	for _, n := range layout.Nodes() {
		if err := node.RemoveMultus(c.Layout, n); err != nil {
			return err
		}
	}
	return nil
}
