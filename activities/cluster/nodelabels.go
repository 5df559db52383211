package cluster

import (
	"context"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// nodeLabels returns the labels to write. There are some hundred labels of capabilities, of which only the difference
// is written, so the node is read for them. A node that an administrator has excluded, with KubeVirt's annotation,
// keeps its labels.
func (a *Activities) nodeLabels(ctx context.Context, in contract.PatchNodeInput) (map[string]*string, error) {
	if in.Capabilities == nil {
		return in.Labels, nil
	}
	node, err := a.Kubernetes.CoreV1().Nodes().Get(ctx, in.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if _, skip := node.Annotations[kubevirt.LabellerSkipNodeAnnotation]; skip {
		return in.Labels, nil
	}
	out := maps.Clone(in.Labels)
	if out == nil {
		out = map[string]*string{}
	}
	for k := range node.Labels {
		if _, wanted := in.Capabilities[k]; !wanted && contract.IsCapability(k) {
			out[k] = nil
		}
	}
	for k, v := range in.Capabilities {
		if have, ok := node.Labels[k]; !ok || have != v {
			out[k] = &v
		}
	}
	return out, nil
}
