package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/multus"
)

// networkResources returns what the launcher pod of an instance has to request to be on its networks, by their names:
// the NetworkAttachmentDefinitions name it. They are read only for an instance that names some. Nothing else of them is
// kept.
func (a *Activities) networkResources(
	ctx context.Context, vmi *kubevirt.VirtualMachineInstance,
) (map[string]string, error) {
	out := map[string]string{}
	for _, n := range multus.Networks(vmi) {
		namespace, name := multus.Definition(n.Multus, vmi.Namespace)
		resource, err := a.networkResource(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		if resource != "" {
			out[n.Name] = resource
		}
	}
	return out, nil
}

func (a *Activities) networkResource(ctx context.Context, namespace, name string) (string, error) {
	// The request refuses names that would lead it elsewhere.
	raw, err := a.Kubernetes.CoreV1().RESTClient().Get().AbsPath("/apis/k8s.cni.cncf.io/v1").Namespace(namespace).
		Resource("network-attachment-definitions").Name(name).SetHeader("Accept", "application/json").DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return "", nonRetryable(contract.ErrorForbidden,
			fmt.Sprintf("Failed to locate network attachment definition %s/%s", namespace, name))
	case err != nil:
		return "", failure("reading the NetworkAttachmentDefinition "+name, err)
	}
	var definition metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &definition); err != nil {
		return "", nonRetryable(contract.ErrorForbidden, fmt.Sprintf(
			"the NetworkAttachmentDefinition %s/%s cannot be read: %v", namespace, name, err))
	}
	return definition.Annotations[multus.AnnotationResourceName], nil
}
