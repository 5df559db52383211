package world_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/figures"
	"github.com/virtflow/virtflow/testsuite/world"
	"github.com/virtflow/virtflow/workflows/contract"
)

// TestFaultMatrix lets every activity invocation of every story fail in every way. What must hold all the time must hold; the story must
// come to its end, or say what failed; and when everything is deleted, nothing may be left.
func TestFaultMatrix(t *testing.T) {
	var cases, broken atomic.Int64
	t.Cleanup(func() { figures.Print(t, "fault matrix: cases %d, invariants broken: %d", cases.Load(), broken.Load()) })
	for _, s := range world.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			clean := tell(t, s, nil)
			require.Empty(t, clean.Broken, "without any fault")
			for _, f := range clean.Invocations() {
				if ofNodes(f.Activity) && s.Name != "start" && !strings.HasPrefix(s.Name, "node-") {
					continue // every story begins with the same calls about its two nodes
				}
				for _, m := range world.Modes() {
					f.Mode = m
					t.Run(fmt.Sprintf("%s#%d/%s", f.Activity, f.Ordinal, m), func(t *testing.T) {
						cases.Add(1)
						w := tell(t, s, &f)
						broken.Add(int64(len(w.Broken)))
						complain(t, w)
					})
				}
			}
		})
	}
}

func ofNodes(activity string) bool {
	return activity == contract.ActivityPatchNode || activity == contract.ActivityReportNode
}

// tell tells a story with a fault in it.
func tell(t *testing.T, s world.Scenario, f *world.Fault) *world.World {
	t.Helper()
	o := s.Options
	o.Fault = f
	w, err := world.New(o)
	require.NoError(t, err)
	s.Tell(w)
	return w
}
