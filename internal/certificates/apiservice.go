package certificates

import (
	"context"
	"encoding/base64"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewAPIService returns an APIService without its Go type, whose module depends on half of the API server.
func NewAPIService(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	u.SetName(name)
	return u
}

// trustAt writes the CA into one APIService.
func (k *Rotator) trustAt(ctx context.Context, name string, bundle []byte) error {
	service := NewAPIService(name)
	if err := k.client.Get(ctx, types.NamespacedName{Name: name}, service); err != nil {
		return fmt.Errorf("reading APIService %s: %w", name, err)
	}
	want := base64.StdEncoding.EncodeToString(bundle)
	is, _, err := unstructured.NestedString(service.Object, "spec", "caBundle")
	if err != nil {
		return fmt.Errorf("reading APIService %s: %w", name, err)
	}
	if is == want {
		return nil
	}
	changed := service.DeepCopy()
	if err := unstructured.SetNestedField(changed.Object, want, "spec", "caBundle"); err != nil {
		return fmt.Errorf("writing the CA into APIService %s: %w", name, err)
	}
	if err := k.client.Patch(ctx, changed, client.MergeFrom(service)); err != nil {
		return fmt.Errorf("writing the CA into APIService %s: %w", name, err)
	}
	k.log.Info().Str("name", name).Msg("wrote current CA into APIService")
	return nil
}
