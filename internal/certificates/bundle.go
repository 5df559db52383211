package certificates

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BundleKey is the key of the CA in the ConfigMap.
const BundleKey = "ca.crt"

// publish writes the CA into the ConfigMap if it does not have it.
func (k *Rotator) publish(ctx context.Context, bundle []byte) error {
	have := &corev1.ConfigMap{}
	if err := k.client.Get(ctx, k.Bundle, have); err != nil {
		return fmt.Errorf("reading ConfigMap %s (part of virtflow's manifests, empty at first): %w", k.Bundle, err)
	}
	if have.Data[BundleKey] == string(bundle) {
		return nil
	}
	changed := have.DeepCopy()
	if changed.Data == nil {
		changed.Data = map[string]string{}
	}
	changed.Data[BundleKey] = string(bundle)
	if err := k.client.Patch(ctx, changed, client.MergeFrom(have)); err != nil {
		return fmt.Errorf("writing the CA into ConfigMap %s: %w", k.Bundle, err)
	}
	k.log.Info().Str("name", k.Bundle.Name).Msg("wrote current CA into ConfigMap")
	return nil
}
