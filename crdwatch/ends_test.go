package crdwatch

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// TestAnEndThatWasJustSentIsNotAskedAbout while visibility still shows its workflow; one that is still there at the
// next look is, and so is one that no informer has seen.
func TestAnEndThatWasJustSentIsNotAskedAbout(t *testing.T) {
	e := newTestDiffer(t)
	asked := 0
	e.entities.vmi.read = func(context.Context, apiServer, string, string) (*kubevirt.VirtualMachineInstance, error) {
		asked++
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "web")
	}
	r := &resyncer{differ: e}
	const id = "vmi/a/web"
	look := func(fails bool) []string {
		e.beginLook()
		if !fails {
			defer e.looked()
		}
		require.NoError(t, e.entities.vmi.vanishedObjects(t.Context(), r,
			map[string]contract.Object{id: {Namespace: "a", Name: "web", UID: "i"}}))
		return waiting(e, id)
	}
	require.Equal(t, []string{"observe-vmi i"}, look(false), "no informer has seen its end")
	require.Equal(t, 1, asked)

	e.entities.vmi.vanished(e, &kubevirt.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "i"}}, change)
	require.Equal(t, []string{"observe-vmi i"}, waiting(e, id))
	require.Empty(t, look(true), "it was sent")
	require.Empty(t, look(false), "a look that failed before it does not count")
	require.Equal(t, 1, asked)
	require.Equal(t, []string{"observe-vmi i"}, look(false), "its workflow is still there")
	require.Equal(t, 2, asked)

	e.entities.vmi.vanished(e, &kubevirt.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "i"}}, change)
	waiting(e, id)
	e.forgetAll()
	require.Equal(t, []string{"observe-vmi i"}, look(false), "its workflow may have forgotten")
}
