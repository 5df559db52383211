package conformance

import (
	"strings"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func creating() []testCase {
	return []testCase{
		{"a new object gets what the server decides", func(r *rig) {
			o := r.create(r.vms(), r.vm("a",
				`"uid":"mine","generation":7,"deletionTimestamp":"2001-01-01T00:00:00Z","labels":{"x":"y"}`))
			require.Len(r, o.GetUID(), 36)
			require.NotEmpty(r, o.GetResourceVersion())
			require.Equal(r, int64(1), o.GetGeneration())
			require.False(r, o.GetCreationTimestamp().Time.IsZero())
			require.Nil(r, o.GetDeletionTimestamp())
			require.Equal(r, r.ns, o.GetNamespace())
			require.Equal(r, map[string]string{"x": "y"}, o.GetLabels())
			again := r.get(r.vms(), "a")
			require.Equal(r, o.Object, again.Object)
		}},
		{"a name that is taken", func(r *rig) {
			r.create(r.vms(), r.vm("a", ""))
			_, err := r.vms().Create(r.Context(), r.vm("a", ""), metav1.CreateOptions{})
			status := r.refused(err, 409, metav1.StatusReasonAlreadyExists)
			require.Equal(r, `virtualmachines.`+Group+` "a" already exists`, status.Message)
			require.Equal(r, "a", status.Details.Name)
			r.create(r.pods(), r.pod("a", "", ""))
			_, err = r.pods().Create(r.Context(), r.pod("a", "", ""), metav1.CreateOptions{})
			r.refused(err, 409, metav1.StatusReasonAlreadyExists)
		}},
		{"a resourceVersion on what is new", func(r *rig) {
			_, err := r.vms().Create(r.Context(), r.vm("a", `"resourceVersion":"5"`), metav1.CreateOptions{})
			status := r.refused(err, 500, metav1.StatusReasonUnknown)
			require.Contains(r, status.Message, "resourceVersion should not be set on objects to be created")
		}},
		{"no name", func(r *rig) {
			o := r.vm("", "")
			_, err := r.vms().Create(r.Context(), o, metav1.CreateOptions{})
			status := r.refused(err, 422, metav1.StatusReasonInvalid)
			require.Contains(r, status.Message, "name or generateName is required")
			_, err = r.vms().Create(r.Context(), r.vm("Not_A_Name", ""), metav1.CreateOptions{})
			status = r.refused(err, 422, metav1.StatusReasonInvalid)
			require.Equal(r, "metadata.name", status.Details.Causes[0].Field)
		}},
		{"a generated name", func(r *rig) {
			seen := map[string]bool{}
			for range 5 {
				o := r.create(r.vmis(), r.vmi("", `"generateName":"set-"`))
				require.True(r, strings.HasPrefix(o.GetName(), "set-"))
				require.Len(r, o.GetName(), len("set-")+5)
				seen[o.GetName()] = true
			}
			require.Len(r, seen, 5)
		}},
		{"a namespace that is not there", func(r *rig) {
			r.ns = "conformance-none"
			_, err := r.vms().Create(r.Context(), r.vm("a", ""), metav1.CreateOptions{})
			status := r.refused(err, 404, metav1.StatusReasonNotFound)
			require.Equal(r, []string{"namespaces", "conformance-none"},
				[]string{status.Details.Kind, status.Details.Name})
			_, err = r.vms().Get(r.Context(), "a", metav1.GetOptions{})
			status = r.refused(err, 404, metav1.StatusReasonNotFound)
			require.Equal(r, `virtualmachines.`+Group+` "a" not found`, status.Message)
		}},
		{"another namespace in the object", func(r *rig) {
			_, err := r.vms().Create(r.Context(), r.vm("a", `"namespace":"default"`), metav1.CreateOptions{})
			r.refused(err, 400, metav1.StatusReasonBadRequest)
		}},
		{"owners that are not whole", func(r *rig) {
			_, err := r.vmis().Create(r.Context(),
				r.vmi("a", `"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":""}]`), metav1.CreateOptions{})
			r.refused(err, 422, metav1.StatusReasonInvalid)
			_, err = r.vmis().Create(r.Context(), r.vmi("a", `"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"1","controller":true},
				{"apiVersion":"v1","kind":"Pod","name":"y","uid":"2","controller":true}]`), metav1.CreateOptions{})
			r.refused(err, 422, metav1.StatusReasonInvalid)
		}},
		{"finalizers without a domain", func(r *rig) {
			_, err := r.pods().Create(r.Context(), r.pod("a", `"finalizers":["nodomain"]`, ""), metav1.CreateOptions{})
			r.refused(err, 422, metav1.StatusReasonInvalid)
			_, err = r.vms().Create(r.Context(), r.vm("a", `"finalizers":["no domain"]`), metav1.CreateOptions{})
			r.refused(err, 422, metav1.StatusReasonInvalid)
		}},
		{"a status counts only without a status subresource", func(r *rig) {
			vm, vmi := r.vm("a", ""), r.vmi("a", "")
			vm.Object["status"] = map[string]any{"created": true}
			vmi.Object["status"] = map[string]any{"phase": "Pending"}
			require.NotContains(r, r.create(r.vms(), vm).Object, "status")
			require.Equal(r, "Pending", text(r.create(r.vmis(), vmi), "status", "phase"))
		}},
		{"a value of another type", func(r *rig) {
			o := r.vm("a", "")
			o.Object["spec"].(map[string]any)["running"] = "yes"
			_, err := r.vms().Create(r.Context(), o, metav1.CreateOptions{})
			status := r.refused(err, 422, metav1.StatusReasonInvalid)
			require.Equal(r, "spec.running", status.Details.Causes[0].Field)
			r.create(r.vms(), r.vm("a", ""))
			_, err = r.merge(r.vms(), "a", "status", `{"status":{"created":"yes"}}`)
			status = r.refused(err, 422, metav1.StatusReasonInvalid)
			require.Equal(r, "status.created", status.Details.Causes[0].Field)
			_, err = r.merge(r.vms(), "a", "", `{"spec":{"template":null}}`)
			status = r.refused(err, 422, metav1.StatusReasonInvalid)
			require.Equal(r, "spec.template", status.Details.Causes[0].Field)
			_, err = r.merge(r.vms(), "a", "status", `{"status":{"conditions":[{"type":"Ready"}]}}`)
			status = r.refused(err, 422, metav1.StatusReasonInvalid)
			require.Equal(r, "status.conditions[0].status", status.Details.Causes[0].Field)
		}},
		{"what the schema does not know is dropped", func(r *rig) {
			o := r.vm("a", "")
			o.Object["spec"].(map[string]any)["unknownField"] = "x"
			made := r.create(r.vms(), o)
			require.Empty(r, text(made, "spec", "unknownField"))
			patched := r.merged(r.vms(), "a", "", `{"spec":{"unknownField":true}}`)
			require.Equal(r, made.GetResourceVersion(), patched.GetResourceVersion())
			require.Equal(r, int64(1), patched.GetGeneration())
		}},
	}
}
