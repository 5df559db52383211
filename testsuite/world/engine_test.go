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

	"github.com/virtflow/virtflow/testsuite/suite"
	"github.com/virtflow/virtflow/testsuite/world"
)

// TestEngineFaults injects every fault of the engine beneath the guests at every activity invocation of every story:
// entities terminated by hand, Temporal's database empty or put back to an older copy, an acknowledged signal lost. No
// guest may end because of it, and the story must reach its end. The faults take turns, at every second invocation;
// with VIRTFLOW_MATRIX=whole each fault is injected everywhere. In continuous integration the cases take turns as well.
func TestEngineFaults(t *testing.T) {
	var cases, idle, broken atomic.Int64
	t.Cleanup(func() {
		suite.PrintFigures(t, "faults of the engine: cases %d, invariants broken: %d (faults that struck no call: %d)",
			cases.Load(), broken.Load(), idle.Load())
		// Not require: a failure that ends a cleanup at once is not reported by name.
		assert.Positive(t, cases.Load(), "nothing was tried")
		assert.LessOrEqual(t, idle.Load()*50, cases.Load(),
			"too many cases in which no fault has struck: they prove nothing")
	})
	for story, s := range world.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			// Before the clean run: it changes which activities are called.
			s.Options.AlwaysContinueAsNew = s.Options.AlwaysContinueAsNew || story%2 == 1
			clean := playWithFault(t, s, nil)
			require.Empty(t, clean.Broken, "without any fault")
			s.Options.Clean = clean.Took()
			n := 0
			for i, call := range clean.Invocations() {
				if isNodeActivity(call.Activity) && s.Name != "start" {
					continue // every story begins with the same calls about its two nodes
				}
				for _, m := range dueModes(world.EngineModes(call.Running), story+i) {
					f := world.Fault{Activity: call.Activity, Ordinal: call.Ordinal, Mode: m}
					if n++; !suite.IsDue(t, story+n) {
						continue
					}
					t.Run(fmt.Sprintf("%s#%d/%s", f.Activity, f.Ordinal, m), func(t *testing.T) {
						cases.Add(1)
						w := playWithFault(t, s, &f)
						broken.Add(int64(len(w.Broken)))
						reportBroken(t, w)
						if w.Hits() == 0 {
							idle.Add(1)
						}
					})
				}
			}
		})
	}
}

// dueModes returns the mode whose turn it is, if any.
func dueModes(modes []world.Mode, turn int) []world.Mode {
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

// TestReleasesEndedWorld checks that a world that has ended is garbage-collected: the suites create thousands, of some
// MiB each.
func TestReleasesEndedWorld(t *testing.T) {
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
