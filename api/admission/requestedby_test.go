package admission

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// TestKeepsRequestedByDuringDeletion: no user can attribute the deletion to another one.
func TestKeepsRequestedByDuringDeletion(t *testing.T) {
	leaving := func(user string) string {
		return strings.Replace(withAnnotation(t, demo, user, "Always"), `"metadata":{`,
			`"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z",`, 1)
	}
	for name, c := range map[string]struct{ user, before, after, want string }{
		"forged":          {"mallory", leaving("alice"), leaving("bob"), "alice"},
		"as it was":       {"mallory", leaving("alice"), leaving("alice"), "alice"},
		"virtflow's word": {own, leaving("alice"), leaving("bob"), "bob"},
		"none before": {"mallory", strings.ReplaceAll(leaving("x"), contract.AnnotationRequestedBy, "other"),
			leaving("bob"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			vm := mutate[kubevirtv1.VirtualMachine](t,
				call{path: PathMutateVM, operation: admissionv1.Update, user: c.user, old: c.before}, c.after)
			require.Equal(t, c.want, vm.Annotations[contract.AnnotationRequestedBy])
		})
	}
	set := func(user string) string {
		return `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceReplicaSet", "spec": {"selector": {}, "template": {}}, "metadata": {"name": "s",
			"deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": {"virtflow.io/requested-by": "` + user + `", "virtflow.io/requested-generation": "2"}}}`
	}
	got := mutate[kubevirtv1.VirtualMachineInstanceReplicaSet](t,
		call{path: PathMutateVMIRS, operation: admissionv1.Update, user: "mallory", old: set("alice")}, set("bob"))
	require.Equal(t, "alice", got.Annotations[contract.AnnotationRequestedBy])
	require.Equal(t, "2", got.Annotations[contract.AnnotationRequestedGeneration])
}

// TestRecordsUserOfStatusRequest: the authenticated user is recorded, whatever the request names; earlier requests stay
// as they were.
func TestRecordsUserOfStatusRequest(t *testing.T) {
	object := func(requests ...string) string {
		return `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "demo"}, "spec": {}, ` +
			`"status": {"stateChangeRequests": [` + strings.Join(requests, ",") + `]}}`
	}
	const alices, bobs, nobodys = `{"action": "Start", "data": {"virtflow.io/requested-by": "alice"}}`,
		`{"action": "Start", "data": {"virtflow.io/requested-by": "bob"}}`,
		`{"action": "Stop", "uid": "u"}`
	for name, c := range map[string]struct {
		user        string
		before, now []string
		want        []string
	}{
		"one without a user":          {"mallory", nil, []string{nobodys}, []string{"mallory"}},
		"one that names another user": {"mallory", nil, []string{alices}, []string{"mallory"}},
		"one that was there":          {"mallory", []string{alices}, []string{alices}, []string{"alice"}},
		"a copy of one": {"mallory", []string{alices}, []string{alices, alices},
			[]string{"alice", "mallory"}},
		"one that was changed":        {"mallory", []string{alices}, []string{bobs}, []string{"mallory"}},
		"one that was there, unnamed": {"mallory", []string{nobodys}, []string{nobodys}, []string{""}},
		"virtflow's":                  {own, nil, []string{alices}, []string{"alice"}},
	} {
		t.Run(name, func(t *testing.T) {
			vm := mutate[kubevirtv1.VirtualMachine](t,
				call{path: PathMutateVMStatus, operation: admissionv1.Update, user: c.user,
					old: object(c.before...)}, object(c.now...))
			var got []string
			for _, r := range vm.Status.StateChangeRequests {
				got = append(got, r.Data[contract.AnnotationRequestedBy])
			}
			require.Equal(t, c.want, got)
			raw, err := json.Marshal(vm)
			require.NoError(t, err)
			resp := ask(t, call{path: PathValidateStatus, operation: admissionv1.Update, user: c.user,
				old: object(c.before...)}, string(raw))
			require.True(t, resp.Allowed, "%v", resp.Result)
		})
	}
}
