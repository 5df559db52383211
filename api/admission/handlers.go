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

// Options are what the handlers need to know.
type Options struct {
	// Cluster reads the cluster's configuration as it is now.
	Cluster func(context.Context) (defaults.Cluster, error)
	// Reader and Writer reach the cluster's objects, uncached; nil: there are none.
	Reader client.Reader
	Writer client.Writer
	// OwnUsers are the user names of virtflow's own accounts. The webhook configurations exempt them already; where
	// such a call arrives all the same, they may do what users may not.
	OwnUsers []string
	// Controllers are those of OwnUsers that decide when guests migrate.
	Controllers []string
	// Nodes are those of OwnUsers that speak for one node, which the account's token names. virtflow's own nodes have
	// no account.
	Nodes []string
	// Reports reports to the workflows who deletes and who scales; nil: nobody does.
	Reports Reports
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Observe gets every answer, for metrics; it may be nil.
	Observe func(webhook string, allowed bool, took time.Duration)
}

// Paths of the webhooks: KubeVirt's, and virtflow's own: for replica sets, which KubeVirt does not fill in, for who
// writes requests into the status of VMs, and for who deletes and scales.
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

// AuthenticatedPaths are those of the webhooks that do more than answer: they mark an instance for evacuation, report
// who asked, or say what there is in the cluster. They are to be served to the API server alone.
func AuthenticatedPaths() []string {
	return []string{PathValidateEviction, PathReport, PathValidateVMIM}
}

type handler struct {
	Options
	kinds
}

// Handlers makes the HTTP handler of each webhook, by path.
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
		out[path] = &admission.Webhook{Handler: h.observed(path, bounded(path, handle))}
	}
	return out
}

// bounded answers for objects, as they are or as they were, that would take too much memory. It comes before anything
// decodes them. Deletions are only reported, and never refused.
func bounded(path string, next admission.HandlerFunc) admission.HandlerFunc {
	return func(ctx context.Context, req admission.Request) admission.Response {
		for _, raw := range [][]byte{req.Object.Raw, req.OldObject.Raw, req.Options.Raw} {
			if err := schema.CheckParts(raw); err != nil && path == PathReport {
				return admission.Allowed("")
			} else if err != nil {
				return bad(err)
			}
		}
		return next(ctx, req)
	}
}

func (h *handler) observed(path string, next admission.HandlerFunc) admission.HandlerFunc {
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

// own says whether a call comes from virtflow itself.
func (h *handler) own(req admission.Request) bool {
	return slices.Contains(h.OwnUsers, req.UserInfo.Username)
}
