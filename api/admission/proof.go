package admission

import (
	"context"
	"net/http"
)

// ProofSuffix ends the patterns of paths whose last part is the proof of Options.Proven.
const ProofSuffix = "/{proof}"

// ProvenWebhooks are all webhooks by their names in the configurations, and their paths, to which the proof is appended there.
func ProvenWebhooks() map[string]string {
	return map[string]string{
		"virtualmachines-mutator.kubevirt.io":                   PathMutateVM,
		"virtualmachines-status-mutator.virtflow.io":            PathMutateVMStatus,
		"virtualmachineinstances-mutator.kubevirt.io":           PathMutateVMI,
		"virtualmachineinstancereplicasets-mutator.virtflow.io": PathMutateVMIRS,
		"migrations-mutator.kubevirt.io":                        PathMutateVMIM,
		"virtualmachine-validator.kubevirt.io":                  PathValidateVM,
		"virtualmachineinstances-create-validator.kubevirt.io":  PathValidateVMI,
		"virtualmachineinstances-update-validator.kubevirt.io":  PathValidateVMIPatch,
		"virtualmachinereplicaset-validator.kubevirt.io":        PathValidateVMIRS,
		"migration-create-validator.kubevirt.io":                PathValidateVMIM,
		"migration-update-validator.kubevirt.io":                PathValidateVMIMUpdate,
		"kubevirt-crd-status-validator.kubevirt.io":             PathValidateStatus,
		"virt-launcher-eviction-interceptor.kubevirt.io":        PathValidateEviction,
		"kubevirt-update-validator.kubevirt.io":                 PathValidateKubeVirt,
		"requests-reporter.virtflow.io":                         PathReport,
	}
}

type proven struct{}

// withProof notes whether a call has come on the path that only the API server is told. One that has not is answered all the same, but
// nothing follows from it.
func (h *handler) withProof(path string) func(context.Context, *http.Request) context.Context {
	return func(ctx context.Context, r *http.Request) context.Context {
		return context.WithValue(ctx, proven{}, h.Proven != nil && h.Proven(path, r.PathValue("proof")))
	}
}

func isProven(ctx context.Context) bool {
	is, _ := ctx.Value(proven{}).(bool)
	return is
}
