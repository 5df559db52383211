package crdwatch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// TestAnEndThatWasSentIsNotAskedAbout while its workflow has not taken it in; one is that no informer has seen, that a
// workflow may know nothing of, or that was sent too long ago.
func TestAnEndThatWasSentIsNotAskedAbout(t *testing.T) {
	e := newTestDiffer(t)
	asked := 0
	e.entities.vmi.read = func(context.Context, apiServer, string, string) (*kubevirt.VirtualMachineInstance, error) {
		asked++
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "web")
	}
	r := &resyncer{differ: e}
	const id = "vmi/a/web"
	began := time.Now()
	clock := testingclock.NewFakeClock(began)
	e.ends = newEnds(clock)
	clock.Step(time.Second)
	look := func(since time.Time) []string {
		require.NoError(t, e.entities.vmi.vanishedObjects(t.Context(), r,
			map[string]openEntity{id: {contract.Object{Namespace: "a", Name: "web", UID: "i"}, since}}))
		return waiting(e, id)
	}
	end := func() {
		e.entities.vmi.vanished(e, &kubevirt.VirtualMachineInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "i"}}, change)
		require.Equal(t, []string{"observe-vmi i"}, waiting(e, id))
	}
	require.Equal(t, []string{"observe-vmi i"}, look(began), "no informer has seen its end")
	require.Equal(t, 1, asked)

	end()
	for range 3 {
		require.Empty(t, look(began), "it was sent")
	}
	require.Equal(t, 1, asked)
	require.Equal(t, []string{"observe-vmi i"}, look(clock.Now()), "its workflow was lost, and runs again")
	require.Equal(t, 2, asked)

	end()
	clock.Step(endsKept)
	require.Equal(t, []string{"observe-vmi i"}, look(began), "its workflow is still there")
	require.Equal(t, 3, asked)

	end()
	e.forgetAll()
	require.Equal(t, []string{"observe-vmi i"}, look(began), "its workflow may have forgotten")
}

// TestEndsAreForgotten after the time that they count.
func TestEndsAreForgotten(t *testing.T) {
	began := time.Now()
	clock := testingclock.NewFakeClock(began)
	e := newEnds(clock)
	for _, uid := range []string{"a", "b", "c"} {
		e.add(uid)
		clock.Step(endsKept / 2)
	}
	clock.Step(-endsKept / 2)
	require.Equal(t, 2, e.seen.Len())
	require.False(t, e.told("a", began.Add(-1)))
	require.True(t, e.told("b", began))
	require.False(t, e.told("b", time.Time{}), "a workflow that is not known to run")
}
