package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
)

// ConfigureMigration returns how a VMI's guest is to be moved: as the MigrationPolicy requires that matches it best,
// and where there is none as the KubeVirt object does. Labels are read only where there is a policy that may ask for
// them.
func (a *Activities) ConfigureMigration(
	ctx context.Context, in contract.ConfigureMigrationInput,
) (contract.ConfigureMigrationResult, error) {
	s := a.Settings()
	out := contract.ConfigureMigrationResult{Configuration: s.Under(nil), Network: s.Migrations().Network}
	if a.Policies == nil {
		return out, nil
	}
	policies, err := a.Policies()
	if err != nil {
		return contract.ConfigureMigrationResult{}, failure("reading the MigrationPolicies", err)
	}
	if len(policies) == 0 {
		return out, nil
	}
	vmi, err := a.readVMI(ctx, in.VMI)
	if err != nil {
		return contract.ConfigureMigrationResult{}, err
	}
	if vmi == nil {
		return contract.ConfigureMigrationResult{}, goneError("VirtualMachineInstance %s is gone", in.VMI.Name)
	}
	var labels map[string]string
	if settings.NamespaceMatters(policies) {
		namespace, err := a.Kubernetes.CoreV1().Namespaces().Get(ctx, in.VMI.Namespace, metav1.GetOptions{})
		if err != nil {
			return contract.ConfigureMigrationResult{}, failure("reading namespace "+in.VMI.Namespace, err)
		}
		labels = namespace.Labels
	}
	if policy := settings.MatchPolicy(policies, vmi.Labels, labels); policy != nil {
		out.Policy, out.Configuration = policy.Name, s.Under(policy)
	}
	return out, nil
}

// ReadMigrationLimits answers how many migrations there may be at a time. It only looks at the settings.
func (a *Activities) ReadMigrationLimits(context.Context) (contract.ReadLimitsResult, error) {
	m := a.Settings().Migrations()
	return contract.ReadLimitsResult{Cluster: m.PerCluster, Outbound: m.PerNode}, nil
}
