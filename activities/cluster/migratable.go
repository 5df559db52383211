package cluster

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/migratable"
	"github.com/virtflow/virtflow/workflows/contract"
)

// hostModelFor is for how long it is believed whether a node names a CPU model for guests that ask for the host's.
const hostModelFor = 5 * time.Minute

// migratable says whether the guest of an instance can be moved.
func (a *Activities) migratable(ctx context.Context, vmi *kubevirt.VirtualMachineInstance) *contract.Migratable {
	settings := a.Settings()
	var node *migratable.Node
	if name := vmi.Status.NodeName; name != "" && migratable.AsksHostModel(vmi, settings) {
		node = a.node(ctx, name)
	}
	m := migratable.Check(vmi, settings, node)
	return &m
}

// node is what counts of a node, nil where it cannot be read.
func (a *Activities) node(ctx context.Context, name string) *migratable.Node {
	if v, ok := a.nodes.Get(name); ok {
		if n, ok := v.(*migratable.Node); ok {
			return n
		}
	}
	node, err := a.Kubernetes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		a.Log.Warn().Err(err).Str("node", name).Msg("the CPU model of a node is not known")
		return nil
	}
	n := &migratable.Node{Name: name}
	for label := range node.Labels {
		n.HostModel = n.HostModel || strings.HasPrefix(label, kubevirt.HostModelCPULabel)
	}
	a.nodes.Add(name, n, hostModelFor)
	return n
}
