package diff

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

	"github.com/virtflow/virtflow/contract"
)

// TestDoesNotResendRecentEnd: an end is not resent while its workflow has not processed it. An end is resent that no
// informer has seen, that a workflow has perhaps not received, or that was sent too long ago.
func TestDoesNotResendRecentEnd(t *testing.T) {
	e := newTestDiffer(t)
	asked := 0
	e.entities.vmi.read = func(context.Context, Clients, string, string) (*kubevirt.VirtualMachineInstance, error) {
		asked++
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "web")
	}
	s := &sources{}
	const id = "vmi/a/web"
	began := time.Now()
	clock := testingclock.NewFakeClock(began)
	e.sentEnds = newSentEnds(clock)
	clock.Step(time.Second)
	look := func(since time.Time) []string {
		require.NoError(t, e.entities.vmi.sendVanishedObjects(t.Context(), s,
			map[string]openEntity{id: {contract.Object{Namespace: "a", Name: "web", UID: "i"}, since}}))
		return waiting(e, id)
	}
	end := func() {
		e.entities.vmi.sendGone(&kubevirt.VirtualMachineInstance{
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
	clock.Step(sentEndsTTL)
	require.Equal(t, []string{"observe-vmi i"}, look(began), "its workflow is still there")
	require.Equal(t, 3, asked)

	end()
	e.forgetAll()
	require.Equal(t, []string{"observe-vmi i"}, look(began), "its workflow may have forgotten")
}

// TestForgetsEndsAfterTTL: both sides of the time limit are checked.
func TestForgetsEndsAfterTTL(t *testing.T) {
	began := time.Now()
	clock := testingclock.NewFakeClock(began)
	e := newSentEnds(clock)
	for _, uid := range []string{"a", "b", "c"} {
		e.add(uid)
		clock.Step(sentEndsTTL / 2)
	}
	clock.Step(-sentEndsTTL / 2)
	require.Equal(t, 2, e.seen.Len())
	require.False(t, e.hasSent("a", began.Add(-1)))
	require.True(t, e.hasSent("b", began))
	require.False(t, e.hasSent("b", time.Time{}), "a workflow that is not known to run")
}
