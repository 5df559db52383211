package admission

import (
	"context"
	"net/http"
)

// ProofSuffix ends the patterns of paths whose last part is the proof of Options.Proven.
const ProofSuffix = "/{proof}"

// ProvenWebhooks are those from which something follows, by name, and their paths, to which the proof is appended.
func ProvenWebhooks() map[string]string {
	return map[string]string{
		"virt-launcher-eviction-interceptor.kubevirt.io": PathValidateEviction,
		"requests-reporter.virtflow.io":                  PathReport,
	}
}

type proven struct{}

// withProof notes whether a call has come on the path that only the API server is told. One that has not is answered all the same, but
// nothing follows from it.
func (h *handler) withProof(ctx context.Context, r *http.Request) context.Context {
	return context.WithValue(ctx, proven{}, h.Proven != nil && h.Proven(r.PathValue("proof")))
}

func isProven(ctx context.Context) bool {
	is, _ := ctx.Value(proven{}).(bool)
	return is
}
