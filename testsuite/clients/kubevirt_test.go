package clients

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/virtflow/virtflow/workers/control"
)

// TestKubeVirtObject: as with KubeVirt's operator, the object is current once its generation is observed, whatever its
// conditions are. kstatus reads none of KubeVirt's.
func TestKubeVirtObject(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	created := &kubevirt.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "kubevirt", Generation: 1}}
	after := func(kv *kubevirt.KubeVirt, problem error) *kubevirt.KubeVirt {
		next := kv.DeepCopy()
		next.Status = control.NextStatus(kv, problem, problem == nil, now)
		return next
	}
	deployed := after(created, nil)
	changed := deployed.DeepCopy()
	changed.Generation++
	deleted := deployed.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	for state, c := range map[string]struct {
		object *kubevirt.KubeVirt
		want   status.Status
	}{
		"created":                   {created, status.CurrentStatus},
		"deployed":                  {deployed, status.CurrentStatus},
		"changed":                   {changed, status.InProgressStatus},
		"changed, and observed":     {after(changed, nil), status.CurrentStatus},
		"without Temporal":          {after(deployed, errors.New("no route to host")), status.CurrentStatus},
		"changed, without Temporal": {after(changed, errors.New("no route to host")), status.CurrentStatus},
		"reached again": {after(after(deployed, errors.New("no route to host")), nil),
			status.CurrentStatus},
		"being deleted": {deleted, status.TerminatingStatus},
	} {
		got, err := status.Compute(asRead(kubevirt.KubeVirtGroupVersionKind, c.object))
		require.NoError(t, err, state)
		require.Equal(t, c.want, got.Status, "%s: %s", state, got.Message)
	}
}
