package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/multus"
)

// networkResources are what the launcher pod of an instance has to ask for to be on its networks, by their names: the
// NetworkAttachmentDefinitions say it. They are read only for an instance that names some. Nothing of what they say
// about the network itself is kept.
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
		return "", temporal.NewApplicationError(
			fmt.Sprintf("Failed to locate network attachment definition %s/%s", namespace, name), errorKubernetes)
	case err != nil:
		return "", failure("reading the NetworkAttachmentDefinition "+name, err)
	}
	var definition metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &definition); err != nil {
		return "", temporal.NewApplicationError(fmt.Sprintf(
			"the NetworkAttachmentDefinition %s/%s cannot be read: %v", namespace, name, err), errorKubernetes)
	}
	return definition.Annotations[multus.AnnotationResourceName], nil
}
