package admission

import (
	"context"
	"net/http"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/schema"
	"github.com/virtflow/virtflow/internal/defaults"
)

// Options has the dependencies of the handlers.
type Options struct {
	// Cluster returns the cluster's current configuration.
	Cluster func(context.Context) (defaults.Cluster, error)
	// Reader and Writer read and write the cluster's objects, uncached; nil if there are none.
	Reader client.Reader
	Writer client.Writer
	// OwnUsers are the user names of virtflow's own accounts. The webhook configurations exempt them already; if such a
	// call arrives nevertheless, they have permissions that users do not.
	OwnUsers []string
	// Controllers are those of OwnUsers that decide when guests migrate.
	Controllers []string
	// Nodes are those of OwnUsers that act for one node, which the account's token names. virtflow's own nodes have no
	// account.
	Nodes []string
	// Reports reports to the workflows who deletes and who scales; nil turns that off.
	Reports Reports
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Observe is called with every answer, for metrics; it may be nil.
	Observe func(webhook string, allowed bool, took time.Duration)
}

// Paths of the webhooks: KubeVirt's, and virtflow's own ones for replica sets, whose defaults KubeVirt leaves out, for
// users who write requests into the status of VMs, and for users who delete and scale.
const (
	PathMutateVM           = "/virtualmachines-mutate"
	PathMutateVMI          = "/virtualmachineinstances-mutate"
	PathMutateVMIRS        = "/virtualmachineinstancereplicasets-mutate"
	PathMutateVMIM         = "/migration-mutate-create"
	PathValidateVM         = "/virtualmachines-validate"
	PathValidateVMI        = "/virtualmachineinstances-validate-create"
	PathValidateVMIPatch   = "/virtualmachineinstances-validate-update"
	PathValidateVMIRS      = "/virtualmachinereplicaset-validate"
	PathValidateVMIM       = "/migration-validate-create"
	PathValidateVMIMUpdate = "/migration-validate-update"
	PathValidatePolicy     = "/migration-policy-validate-create"
	PathValidateStatus     = "/status-validate"
	PathValidateEviction   = "/pod-eviction-validate"
	PathValidateKubeVirt   = "/kubevirt-validate-update"
	PathMutateVMStatus     = "/virtualmachines-status-mutate"
	PathReport             = "/requests-report"
)

// AuthenticatedPaths returns the paths of webhooks with effects or information: they mark an instance for evacuation,
// report the user, or reveal objects of the cluster. Only the API server may call them.
func AuthenticatedPaths() []string {
	return []string{PathValidateEviction, PathReport, PathValidateVMIM}
}

type handler struct {
	Options
	kinds
}

// Handlers returns the HTTP handler of each webhook, by path.
func Handlers(o Options) map[string]http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	h := &handler{Options: o, kinds: compiledKinds()}
	out := map[string]http.Handler{}
	for path, handle := range map[string]admission.HandlerFunc{
		PathMutateVM:           h.mutateVM,
		PathMutateVMI:          h.mutateVMI,
		PathMutateVMIRS:        h.mutateVMIRS,
		PathMutateVMIM:         h.mutateVMIM,
		PathValidateVM:         h.validateVM,
		PathValidateVMI:        h.validateVMI,
		PathValidateVMIPatch:   h.validateVMIUpdate,
		PathValidateVMIRS:      h.validateVMIRS,
		PathValidateVMIM:       h.validateVMIM,
		PathValidateVMIMUpdate: h.validateVMIMUpdate,
		PathValidatePolicy:     h.validateMigrationPolicy,
		PathValidateStatus:     h.validateStatus,
		PathValidateEviction:   h.validateEviction,
		PathValidateKubeVirt:   h.validateKubeVirt,
		PathMutateVMStatus:     h.mutateVMStatus,
		PathReport:             h.report,
	} {
		out[path] = &admission.Webhook{Handler: h.withMetrics(path, limitSize(path, handle))}
	}
	return out
}

// limitSize refuses objects, new or old, that would take too much memory, before they are decoded. Deletions are only
// reported, and never refused.
func limitSize(path string, next admission.HandlerFunc) admission.HandlerFunc {
	return func(ctx context.Context, req admission.Request) admission.Response {
		for _, raw := range [][]byte{req.Object.Raw, req.OldObject.Raw, req.Options.Raw} {
			if err := schema.CheckParts(raw); err != nil && path == PathReport {
				return admission.Allowed("")
			} else if err != nil {
				return badRequest(err)
			}
		}
		return next(ctx, req)
	}
}

// withMetrics returns a handler that also observes the outcome and the duration of each call.
func (h *handler) withMetrics(path string, next admission.HandlerFunc) admission.HandlerFunc {
	if h.Observe == nil {
		return next
	}
	return func(ctx context.Context, req admission.Request) admission.Response {
		begin := h.Now()
		resp := next(ctx, req)
		h.Observe(path[1:], resp.Allowed, h.Now().Sub(begin))
		return resp
	}
}

// isOwnCall reports whether a call comes from virtflow itself.
func (h *handler) isOwnCall(req admission.Request) bool {
	return slices.Contains(h.OwnUsers, req.UserInfo.Username)
}
