//go:build e2e

package e2e

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// applied is the part of an object that must not change when its manifest is applied again.
type applied struct {
	Metadata struct {
		UID         string
		Generation  int64
		Annotations map[string]string
		Labels      map[string]string
		// ManagedFields are the managers of its fields.
		ManagedFields []metav1.ManagedFieldsEntry
	}
	Spec any
}

// applyByTwo applies a manifest by server-side apply, in turn as two GitOps controllers, again and again. It requires
// that the object stays as it is, and that neither sees drift. Both force their values, as Argo CD and Flux do.
func applyByTwo(t *testing.T, manifest, namespace, object string) {
	t.Helper()
	managers := []string{"argocd-controller", "kustomize-controller"}
	asManager := func(verb, manager string) (string, error) {
		return tryWith(manifest, verb, "--server-side", "--force-conflicts", "--field-manager="+manager, "-f", "-")
	}
	round := func() (o applied) {
		t.Helper()
		for _, manager := range managers {
			_, err := asManager("apply", manager)
			require.NoError(t, err)
		}
		require.NoError(t, json.Unmarshal([]byte(kubectl(t, "-n", namespace, "get", object, "-o", "json",
			"--show-managed-fields")), &o))
		return o
	}
	first, second := round(), round()
	for _, manager := range managers {
		require.Contains(t, appliers(second), manager)
		changes, err := asManager("diff", manager)
		require.NoError(t, err, "%s sees drift:\n%s", manager, changes)
	}
	// Times of the entries are those of status writes, too.
	first.Metadata.ManagedFields, second.Metadata.ManagedFields = nil, nil
	require.Equal(t, first, second)
}

// appliers returns the managers that have applied an object.
func appliers(o applied) (names []string) {
	for _, e := range o.Metadata.ManagedFields {
		if e.Operation == metav1.ManagedFieldsOperationApply {
			names = append(names, e.Manager)
		}
	}
	return names
}
