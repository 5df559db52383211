package admission

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"

	virtadmission "github.com/virtflow/virtflow/api/admission"
)

// TestAppliedTwice: an object that is applied again, by the same or by another user, is admitted without a change. Else
// each pass of a GitOps controller would write it, and two of them would undo each other's writes. It is applied as it
// was admitted, and as an apply of the manifest merges it: lists are replaced whole. An instance's status has the time
// of its creation, which a repeated creation replaces.
func TestAppliedTwice(t *testing.T) {
	records, err := Cases()
	require.NoError(t, err)
	if name := os.Getenv("VIRTFLOW_ADMISSION_CASES"); name != "" {
		recorded, err := Read(name)
		require.NoError(t, err)
		records = append(records, recorded...)
	}
	a := applier{t: t, endpoint: Start(t, newCluster()), mutated: map[string]int{}}
	for _, r := range records {
		var review admissionv1.AdmissionReview
		require.NoError(t, json.Unmarshal(r.Request, &review))
		if review.Request.Operation != admissionv1.Create {
			continue
		}
		switch r.Path {
		case virtadmission.PathMutateVM:
			a.applyTwice(r.ID, r.Path, review)
			if set, is := setOf(t, review); is {
				a.applyTwice(r.ID+", as a replica set", virtadmission.PathMutateVMIRS, set)
			}
		case virtadmission.PathMutateVMI, virtadmission.PathMutateVMIM:
			a.applyTwice(r.ID, r.Path, review)
		}
	}
	for _, path := range []string{virtadmission.PathMutateVM, virtadmission.PathMutateVMI,
		virtadmission.PathMutateVMIRS, virtadmission.PathMutateVMIM} {
		require.Positive(t, a.mutated[path], path)
	}
}

// applier applies objects, and counts those that were admitted, by webhook.
type applier struct {
	t        *testing.T
	endpoint *Endpoint
	mutated  map[string]int
}

// applyTwice sends a creation, and then the object again in every way.
func (a *applier) applyTwice(id, path string, review admissionv1.AdmissionReview) {
	t := a.t
	t.Helper()
	once, allowed := mutate(t, a.endpoint, path, review)
	if !allowed {
		return
	}
	a.mutated[path]++
	again := review
	again.Request = review.Request.DeepCopy()
	again.Request.Object.Raw = once
	twice, allowed := mutate(t, a.endpoint, path, again)
	require.True(t, allowed, "%s: created again", id)
	require.JSONEq(t, withoutTimes(t, once), withoutTimes(t, twice), "%s: created again", id)
	if path == virtadmission.PathMutateVMIM {
		return // its webhook is called for creations only
	}
	merged, err := jsonpatch.MergePatch(once, withoutFinalizers(t, review.Request.Object.Raw))
	require.NoError(t, err)
	again.Request.Operation, again.Request.OldObject.Raw = admissionv1.Update, once
	for _, user := range []string{review.Request.UserInfo.Username, "gitops"} {
		for how, object := range map[string]json.RawMessage{"as admitted": once, "by its manifest": merged} {
			again.Request.UserInfo.Username, again.Request.Object.Raw = user, object
			twice, allowed = mutate(t, a.endpoint, path, again)
			require.True(t, allowed, "%s: applied again %s by %s", id, how, user)
			require.JSONEq(t, string(once), string(twice), "%s: applied again %s by %s", id, how, user)
		}
	}
}

// setOf returns the creation of a replica set with the template of a VM; false: the VM has none.
func setOf(t *testing.T, review admissionv1.AdmissionReview) (admissionv1.AdmissionReview, bool) {
	t.Helper()
	var vm struct {
		Metadata json.RawMessage `json:"metadata,omitempty"`
		Spec     struct {
			Template json.RawMessage `json:"template,omitempty"`
		} `json:"spec"`
	}
	if json.Unmarshal(review.Request.Object.Raw, &vm) != nil || len(vm.Spec.Template) == 0 {
		return review, false
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceReplicaSet", "metadata": vm.Metadata,
		"spec": map[string]any{"selector": map[string]any{}, "template": vm.Spec.Template},
	})
	require.NoError(t, err)
	set := review
	set.Request = review.Request.DeepCopy()
	set.Request.Object.Raw = raw
	set.Request.Resource.Resource = "virtualmachineinstancereplicasets"
	return set, true
}

// mutate returns the object of a request as a mutating webhook leaves it, and whether it is allowed.
func mutate(t *testing.T, e *Endpoint, path string, review admissionv1.AdmissionReview) (json.RawMessage, bool) {
	t.Helper()
	raw, err := json.Marshal(review)
	require.NoError(t, err)
	answer, err := e.Ask(path, raw)
	require.NoError(t, err)
	if !answer.Allowed || len(answer.Patch) == 0 {
		return review.Request.Object.Raw, answer.Allowed
	}
	patch, err := jsonpatch.DecodePatch(answer.Patch)
	require.NoError(t, err)
	out, err := patch.Apply(review.Request.Object.Raw)
	require.NoError(t, err)
	return out, true
}

// withoutFinalizers returns a manifest without finalizers and status: an apply adds finalizers to those that are there,
// and a status is no part of a manifest.
func withoutFinalizers(t *testing.T, manifest json.RawMessage) []byte {
	t.Helper()
	var o map[string]any
	require.NoError(t, json.Unmarshal(manifest, &o))
	delete(o, "status")
	if m, is := o["metadata"].(map[string]any); is {
		delete(m, "finalizers")
		delete(m, "creationTimestamp")
	}
	out, err := json.Marshal(o)
	require.NoError(t, err)
	return out
}

// withoutTimes returns an object without the times of its phases.
func withoutTimes(t *testing.T, object json.RawMessage) string {
	t.Helper()
	out, err := jsonpatch.MergePatch(object, []byte(`{"status": {"phaseTransitionTimestamps": null}}`))
	require.NoError(t, err)
	return string(out)
}
