package conformance

import (
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const notThis = "ffffffff-0000-4000-8000-000000000000"

func updating() []testCase {
	return []testCase{
		{"the generation counts changes of the specification", func(r *rig) {
			r.create(r.vms(), r.vm("a", ""))
			require.Equal(r, int64(1), r.merged(r.vms(), "a", "", `{"metadata":{"labels":{"x":"y"}}}`).GetGeneration())
			require.Equal(r, int64(1), r.merged(r.vms(), "a", "status", `{"status":{"created":true}}`).GetGeneration())
			require.Equal(r, int64(2), r.merged(r.vms(), "a", "", `{"spec":{"runStrategy":"Always"}}`).GetGeneration())
			require.Equal(r, int64(2), r.merged(r.vms(), "a", "", `{"metadata":{"generation":9}}`).GetGeneration())
		}},
		{"without a status subresource it counts the status too", func(r *rig) {
			r.create(r.vmis(), r.vmi("a", ""))
			require.Equal(r, int64(2), r.merged(r.vmis(), "a", "", `{"status":{"phase":"Pending"}}`).GetGeneration())
			require.Equal(r, int64(2), r.merged(r.vmis(), "a", "", `{"metadata":{"labels":{"x":"y"}}}`).GetGeneration())
			_, err := r.merge(r.vmis(), "a", "status", `{"status":{"phase":"Running"}}`)
			r.refused(err, 404, metav1.StatusReasonNotFound)
		}},
		{"main resource and status subresource keep to their halves", func(r *rig) {
			r.create(r.vms(), r.vm("a", ""))
			o := r.merged(r.vms(), "a", "status",
				`{"metadata":{"labels":{"x":"y"},"finalizers":["a.b/c"]},"spec":{"runStrategy":"Always"},"status":{"printableStatus":"Stopped"}}`)
			require.Equal(r, "Halted", text(o, "spec", "runStrategy"))
			require.Equal(r, "Stopped", text(o, "status", "printableStatus"))
			require.Empty(r, o.GetLabels())
			require.Empty(r, o.GetFinalizers())
			o = r.merged(r.vms(), "a", "",
				`{"metadata":{"labels":{"x":"y"}},"spec":{"runStrategy":"Always"},"status":{"printableStatus":"Running"}}`)
			require.Equal(r, "Always", text(o, "spec", "runStrategy"))
			require.Equal(r, "Stopped", text(o, "status", "printableStatus"))
			require.Equal(r, map[string]string{"x": "y"}, o.GetLabels())
		}},
		{"a patch with an old resourceVersion", func(r *rig) {
			first := r.create(r.vms(), r.vm("a", ""))
			second := r.merged(r.vms(), "a", "", `{"metadata":{"resourceVersion":%q,"labels":{"x":"1"}}}`,
				first.GetResourceVersion())
			for _, sub := range []string{"", "status"} {
				_, err := r.merge(r.vms(), "a", sub,
					`{"metadata":{"resourceVersion":%q,"labels":{"x":"2"}},"status":{"created":true}}`, first.GetResourceVersion())
				status := r.refused(err, 409, metav1.StatusReasonConflict)
				require.Contains(r, status.Message,
					"the object has been modified; please apply your changes to the latest version and try again")
			}
			r.merged(r.vms(), "a", "status", `{"metadata":{"resourceVersion":%q},"status":{"created":true}}`,
				second.GetResourceVersion())
		}},
		{"a patch with another UID", func(r *rig) {
			vm := r.create(r.vms(), r.vm("a", ""))
			r.create(r.vmis(), r.vmi("a", ""))
			r.create(r.pods(), r.pod("a", "", ""))
			check := func(_ *object, err error) {
				r.Helper()
				status := r.refused(err, 422, metav1.StatusReasonInvalid)
				require.Equal(r, "metadata.uid", status.Details.Causes[0].Field)
			}
			check(r.merge(r.vms(), "a", "", `{"metadata":{"uid":%q,"labels":{"x":"y"}}}`, notThis))
			check(r.merge(r.vmis(), "a", "", `{"metadata":{"uid":%q},"status":{"phase":"Failed"}}`, notThis))
			check(r.patch(r.pods(), "a", "", types.StrategicMergePatchType,
				`{"metadata":{"uid":%q,"labels":{"x":"y"}}}`, notThis))
			check(r.patch(r.pods(), "a", "status", types.StrategicMergePatchType,
				`{"metadata":{"uid":%q},"status":{"conditions":[{"type":"x/y","status":"True"}]}}`, notThis))
			r.merged(r.vms(), "a", "", `{"metadata":{"uid":%q,"labels":{"x":"y"}}}`, vm.GetUID())
			_, err := r.merge(r.vms(), "a", "", `{"metadata":{"uid":%q,"resourceVersion":"1"}}`, notThis)
			r.refused(err, 409, metav1.StatusReasonConflict) // the version is compared first
		}},
		{"a status patch with another UID goes by the resourceVersion alone", func(r *rig) {
			r.create(r.vms(), r.vm("a", ""))
			o := r.merged(r.vms(), "a", "status", `{"metadata":{"uid":%q},"status":{"created":true}}`, notThis)
			require.NotEqual(r, types.UID(notThis), o.GetUID())
		}},
		{"an update that changes nothing", func(r *rig) {
			first := r.create(r.vms(), r.vm("a", `"labels":{"x":"y"}`))
			second := r.merged(r.vms(), "a", "", `{"metadata":{"labels":{"x":"y"}},"spec":{"runStrategy":"Halted"}}`)
			require.Equal(r, first.GetResourceVersion(), second.GetResourceVersion())
			third, err := r.vms().Update(r.Context(), second, metav1.UpdateOptions{})
			require.NoError(r, err)
			require.Equal(r, first.GetResourceVersion(), third.GetResourceVersion())
		}},
		{"replacing", func(r *rig) {
			first := r.create(r.vms(), r.vm("a", ""))
			change := func(edit func(*object)) error {
				o := first.DeepCopy()
				edit(o)
				_, err := r.vms().Update(r.Context(), o, metav1.UpdateOptions{})
				return err
			}
			status := r.refused(change(func(o *object) { o.SetResourceVersion("") }), 422, metav1.StatusReasonInvalid)
			require.Equal(r, "metadata.resourceVersion", status.Details.Causes[0].Field)
			r.refused(change(func(o *object) { o.SetUID(notThis) }), 409, metav1.StatusReasonConflict)
			require.NoError(r, change(func(o *object) { o.SetLabels(map[string]string{"x": "y"}) }))
			r.refused(change(func(o *object) {
				o.SetLabels(map[string]string{"x": "z"})
			}), 409, metav1.StatusReasonConflict)
			gone := r.vm("b", `"resourceVersion":"5"`)
			_, err := r.vms().Update(r.Context(), gone, metav1.UpdateOptions{})
			r.refused(err, 404, metav1.StatusReasonNotFound)
		}},
		{"a pod may be replaced without a resourceVersion", func(r *rig) {
			o := r.create(r.pods(), r.pod("a", "", ""))
			o.SetResourceVersion("")
			o.SetLabels(map[string]string{"x": "y"})
			_, err := r.pods().Update(r.Context(), o, metav1.UpdateOptions{})
			require.NoError(r, err)
		}},
		{"immutable fields", func(r *rig) {
			first := r.create(r.vms(), r.vm("a", `"finalizers":["a.b/c"]`))
			o := r.merged(r.vms(), "a", "", `{"metadata":{"creationTimestamp":"2001-01-01T00:00:00Z"}}`)
			require.Equal(r, first.GetCreationTimestamp(), o.GetCreationTimestamp())
			_, err := r.merge(r.vms(), "a", "", `{"metadata":{"deletionTimestamp":"2001-01-01T00:00:00Z"}}`)
			r.refused(err, 422, metav1.StatusReasonInvalid)
			require.NoError(r, r.vms().Delete(r.Context(), "a", metav1.DeleteOptions{}))
			o = r.merged(r.vms(), "a", "",
				`{"metadata":{"deletionTimestamp":null,"deletionGracePeriodSeconds":null,"labels":{"x":"y"}}}`)
			require.NotNil(r, o.GetDeletionTimestamp())
			r.merged(r.vms(), "a", "", `{"metadata":{"finalizers":null}}`)
		}},
	}
}

func patching() []testCase {
	return []testCase{
		{"JSON patch", func(r *rig) {
			r.create(r.vms(), r.vm("a", `"labels":{"x":"y"}`))
			_, err := r.patch(r.vms(), "a", "", types.JSONPatchType,
				`[{"op":"test","path":"/metadata/labels/x","value":"z"},{"op":"remove","path":"/metadata/labels/x"}]`)
			r.refused(err, 422, metav1.StatusReasonInvalid)
			_, err = r.patch(r.vms(), "a", "", types.JSONPatchType,
				`[{"op":"remove","path":"/metadata/annotations/none"}]`)
			r.refused(err, 422, metav1.StatusReasonInvalid)
			_, err = r.patch(r.vms(), "a", "", types.JSONPatchType, `{"op":"x"}`)
			r.refused(err, 400, metav1.StatusReasonBadRequest)
			o, err := r.patch(r.vms(), "a", "", types.JSONPatchType,
				`[{"op":"test","path":"/metadata/labels/x","value":"y"},{"op":"replace","path":"/spec/runStrategy","value":"Always"}]`)
			require.NoError(r, err)
			require.Equal(r, "Always", text(o, "spec", "runStrategy"))
			o, err = r.patch(r.vms(), "a", "status", types.JSONPatchType,
				`[{"op":"add","path":"/status","value":{"created":true}}]`)
			require.NoError(r, err)
			_, err = r.patch(r.vms(), "a", "status", types.JSONPatchType,
				`[{"op":"test","path":"/metadata/resourceVersion","value":%q},{"op":"remove","path":"/status/created"}]`, o.GetResourceVersion())
			require.NoError(r, err)
		}},
		{"merge patch removes what is null", func(r *rig) {
			r.create(r.vms(), r.vm("a", `"labels":{"x":"y","k":"l"},"finalizers":["a.b/c"]`))
			o := r.merged(r.vms(), "a", "", `{"metadata":{"labels":{"x":null},"finalizers":null}}`)
			require.Equal(r, map[string]string{"k": "l"}, o.GetLabels())
			require.Empty(r, o.GetFinalizers())
			_, err := r.merge(r.vms(), "a", "", `{"metadata":`)
			r.refused(err, 400, metav1.StatusReasonBadRequest)
			_, err = r.merge(r.vms(), "b", "", `{"metadata":{}}`)
			r.refused(err, 404, metav1.StatusReasonNotFound)
		}},
		{"strategic merge patch is not for custom resources", func(r *rig) {
			r.create(r.vms(), r.vm("a", ""))
			_, err := r.patch(r.vms(), "a", "", types.StrategicMergePatchType, `{"metadata":{"labels":{"x":"y"}}}`)
			r.refused(err, 415, metav1.StatusReasonUnsupportedMediaType)
		}},
		{"strategic merge patch of pods", func(r *rig) {
			r.create(r.pods(), r.pod("a", `"finalizers":["a.b/c","d.e/f"]`, ""))
			one := func(kind, status string) *object {
				r.Helper()
				o, err := r.patch(r.pods(), "a", "status", types.StrategicMergePatchType,
					`{"status":{"conditions":[{"type":%q,"status":%q}]}}`, kind, status)
				require.NoError(r, err)
				return o
			}
			one("x.y/one", "True")
			one("x.y/two", "True")
			o := one("x.y/one", "False")
			require.Equal(r, "False", conditionOf(o, "x.y/one"))
			require.Equal(r, "True", conditionOf(o, "x.y/two"))
			o, err := r.patch(r.pods(), "a", "", types.StrategicMergePatchType,
				`{"metadata":{"$deleteFromPrimitiveList/finalizers":["a.b/c"]}}`)
			require.NoError(r, err)
			require.Equal(r, []string{"d.e/f"}, o.GetFinalizers())
			again, err := r.patch(r.pods(), "a", "", types.StrategicMergePatchType,
				`{"metadata":{"$deleteFromPrimitiveList/finalizers":["a.b/c"]}}`)
			require.NoError(r, err)
			require.Equal(r, o.GetResourceVersion(), again.GetResourceVersion())
			_, err = r.patch(r.pods(), "a", "", types.StrategicMergePatchType,
				`{"metadata":{"$deleteFromPrimitiveList/finalizers":["d.e/f"]}}`)
			require.NoError(r, err)
		}},
	}
}

// conditionOf returns the status of a condition; "": there is none.
func conditionOf(o *object, kind string) string {
	status, _ := o.Object["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	for _, e := range list {
		if c, ok := e.(map[string]any); ok && c["type"] == kind {
			s, _ := c["status"].(string)
			return s
		}
	}
	return ""
}
