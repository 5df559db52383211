package settings

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"kubevirt.io/api/migrations/v1alpha1"

	"github.com/virtflow/virtflow/internal/kube"
)

// Policies follows the cluster's MigrationPolicies. It is safe for concurrent use.
type Policies struct {
	informer cache.SharedIndexInformer
}

// NewPolicies returns Policies that connect by that configuration; nothing happens before Run.
func NewPolicies(config *rest.Config) (*Policies, error) {
	source, err := kube.PoliciesListWatch(config)
	if err != nil {
		return nil, err
	}
	return &Policies{cache.NewSharedIndexInformer(source, &v1alpha1.MigrationPolicy{}, 0, nil)}, nil
}

// Run watches until ctx ends.
func (p *Policies) Run(ctx context.Context) { p.informer.RunWithContext(ctx) }

// All returns the policies as last seen; an error until they have been read. They are shared, and must not be changed.
// Nothing else waits for them: guests start and stop even if they cannot be read.
func (p *Policies) All() ([]*v1alpha1.MigrationPolicy, error) {
	if !p.informer.HasSynced() {
		return nil, errors.New("the MigrationPolicies have not been read yet")
	}
	var out []*v1alpha1.MigrationPolicy
	for _, o := range p.informer.GetStore().List() {
		if policy, ok := o.(*v1alpha1.MigrationPolicy); ok {
			out = append(out, policy)
		}
	}
	return out, nil
}
