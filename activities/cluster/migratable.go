package cluster

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/migratable"
)

// hostModelFor is for how long a read of a node's CPU model counts, for guests that use the host's model.
const hostModelFor = 5 * time.Minute

// checkMigratable returns whether the guest of an instance can move.
func (a *Activities) checkMigratable(ctx context.Context, vmi *kubevirt.VirtualMachineInstance) *contract.Migratable {
	settings := a.Settings()
	var node *migratable.Node
	if name := vmi.Status.NodeName; name != "" && migratable.AsksHostModel(vmi, settings) {
		node = a.readNode(ctx, name)
	}
	m := migratable.Check(vmi, settings, node)
	return &m
}

// readNode returns what matters of a node, nil if it cannot be read.
func (a *Activities) readNode(ctx context.Context, name string) *migratable.Node {
	if v, ok := a.nodes.Get(name); ok {
		if n, ok := v.(*migratable.Node); ok {
			return n
		}
	}
	node, err := a.Kubernetes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		a.Log.Warn().Err(err).Str("node", name).Msg("failed to read the CPU model of a node")
		return nil
	}
	n := &migratable.Node{Name: name}
	for label := range node.Labels {
		n.HostModel = n.HostModel || strings.HasPrefix(label, kubevirt.HostModelCPULabel)
	}
	a.nodes.Add(name, n, hostModelFor)
	return n
}
