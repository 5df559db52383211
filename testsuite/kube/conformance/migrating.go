package conformance

import (
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func migrating() []testCase {
	return []testCase{
		{"a migration's status is written apart, and its finalizer holds it", func(r *rig) {
			r.create(r.migrations(), r.migration("a", `"finalizers":["a.b/c"],"labels":{"x":"y"}`))
			const status = `{"metadata":{"annotations":{"n":"1"}},"status":{"phase":"Pending","migrationState":{` +
				`"startTimestamp":null,"targetDirectMigrationNodePorts":{"8188":0},"sourceNode":"n1"}}}`
			o := r.merged(r.migrations(), "a", "status", status)
			require.Equal(r, "Pending", text(o, "status", "phase"))
			require.Empty(r, o.GetAnnotations())
			require.Equal(r, int64(1), o.GetGeneration())
			o = r.merged(r.migrations(), "a", "", `{"metadata":{"annotations":{"n":"1"}},"status":{"phase":"Failed"}}`)
			require.Equal(r, map[string]string{"n": "1"}, o.GetAnnotations())
			require.Equal(r, "Pending", text(o, "status", "phase"))

			r.delete(r.migrations(), "a", metav1.DeleteOptions{})
			version := r.get(r.migrations(), "a").GetResourceVersion()
			o = r.merged(r.migrations(), "a", "status", `{"metadata":{"resourceVersion":%q},"status":`+
				`{"phase":"Failed","migrationState":{"targetDirectMigrationNodePorts":null}}}`, version)
			require.Equal(r, "n1", text(o, "status", "migrationState", "sourceNode"))
			require.Empty(r, text(o, "status", "migrationState", "targetDirectMigrationNodePorts", "8188"))
			_, err := r.merge(r.migrations(), "a", "", `{"metadata":{"resourceVersion":%q,"finalizers":null}}`, version)
			r.refused(err, 409, metav1.StatusReasonConflict)
			_, err = r.merge(r.migrations(), "a", "", `{"metadata":{"uid":"other","finalizers":null}}`)
			r.refused(err, 422, metav1.StatusReasonInvalid)
			r.merged(r.migrations(), "a", "", `{"metadata":{"resourceVersion":%q,"finalizers":null}}`,
				o.GetResourceVersion())
			r.absent(r.migrations(), "a")
		}},
		{"a migration's status of another type", func(r *rig) {
			r.create(r.migrations(), r.migration("a", ""))
			for field, patch := range map[string]string{
				"status.migrationState.completed": `{"status":{"migrationState":{"completed":"yes"}}}`,
				"status.migrationState.migrationConfiguration.maxDowntimeMs": `{"status":{"migrationState":` +
					`{"migrationConfiguration":{"maxDowntimeMs":0}}}}`,
			} {
				_, err := r.merge(r.migrations(), "a", "status", "%s", patch)
				status := r.refused(err, 422, metav1.StatusReasonInvalid)
				require.Equal(r, field, status.Details.Causes[0].Field)
			}
		}},
	}
}
