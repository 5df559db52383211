package world_test

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/figures"
	"github.com/virtflow/virtflow/testsuite/turns"
	"github.com/virtflow/virtflow/testsuite/world"
)

// TestEngineFaults lets at every activity invocation of every story happen what can happen to the engine beneath the
// guests: entities terminated by hand, Temporal's database empty or put back to an older copy, an acknowledged signal
// lost. No guest may end for it, and the story must come to its end. What happens takes turns, at every second
// invocation; VIRTFLOW_MATRIX=whole lets all happen everywhere. In continuous integration the cases take turns as well.
func TestEngineFaults(t *testing.T) {
	var cases, idle, broken atomic.Int64
	t.Cleanup(func() {
		figures.Print(t, "faults of the engine: cases %d, invariants broken: %d (faults that met no call: %d)",
			cases.Load(), broken.Load(), idle.Load())
		// Not require: what ends a cleanup at once is not told by name.
		assert.Positive(t, cases.Load(), "nothing was tried")
		assert.LessOrEqual(t, idle.Load()*50, cases.Load(),
			"too many cases in which no fault has struck: they say nothing")
	})
	for story, s := range world.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			s.Options.AlwaysAnew = s.Options.AlwaysAnew || story%2 == 1 // before: what is called depends on it
			clean := tell(t, s, nil)
			require.Empty(t, clean.Broken, "without any fault")
			s.Options.Clean = clean.Took()
			n := 0
			for i, call := range clean.Invocations() {
				if ofNodes(call.Activity) && s.Name != "start" {
					continue // every story begins with the same calls about its two nodes
				}
				for _, m := range due(world.EngineModes(call.Running), story+i) {
					f := world.Fault{Activity: call.Activity, Ordinal: call.Ordinal, Mode: m}
					if n++; !turns.Due(t, story+n) {
						continue
					}
					t.Run(fmt.Sprintf("%s#%d/%s", f.Activity, f.Ordinal, m), func(t *testing.T) {
						cases.Add(1)
						w := tell(t, s, &f)
						broken.Add(int64(len(w.Broken)))
						complain(t, w)
						if w.Hits() == 0 {
							idle.Add(1)
						}
					})
				}
			}
		})
	}
}

// due is the mode whose turn it is, if any.
func due(modes []world.Mode, turn int) []world.Mode {
	switch {
	case os.Getenv("VIRTFLOW_MATRIX") == "whole":
		return modes
	case turn%2 == 0:
		return nil
	default:
		i := turn / 2 % len(modes)
		return modes[i : i+1]
	}
}

// TestAWorldThatHasEndedIsForgotten: the suites make thousands, of some MiB each.
func TestAWorldThatHasEndedIsForgotten(t *testing.T) {
	var forgotten atomic.Int64
	const worlds = 10
	s := world.Scenarios()[0]
	for range worlds {
		w, err := world.New(s.Options)
		require.NoError(t, err)
		runtime.AddCleanup(w, func(struct{}) { forgotten.Add(1) }, struct{}{})
		s.Play(w)
	}
	require.Eventually(t, func() bool { runtime.GC(); return forgotten.Load() >= worlds-1 }, time.Minute,
		10*time.Millisecond, "the last one may be on the stack")
}
