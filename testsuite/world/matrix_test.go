package world_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/figures"
	"github.com/virtflow/virtflow/testsuite/turns"
	"github.com/virtflow/virtflow/testsuite/world"
	"github.com/virtflow/virtflow/workflows/contract"
)

// TestFaultMatrix lets every activity invocation of every story fail in every way. What must hold all the time must
// hold; the story must come to its end, or say what failed; and when everything is deleted, nothing may be left. The
// ways to fail take turns, so that each invocation meets a quarter of them, and each activity all of them over the
// stories; VIRTFLOW_MATRIX=whole lets every one meet all. In continuous integration the cases take turns as well. There
// is no activity that none of the stories calls.
func TestFaultMatrix(t *testing.T) {
	var cases, idle, broken atomic.Int64
	var seen called
	stories := world.Scenarios()
	t.Cleanup(func() {
		if seen.stories == len(stories) { // -run may have chosen some
			assert.Empty(t, seen.missing(), "no story calls these activities, so that nothing tries how they fail")
		}
		figures.Print(t, "fault matrix: cases %d, invariants broken: %d (faults that met no call: %d)", cases.Load(),
			broken.Load(), idle.Load())
		// Signals and activities race as they do in truth, so that now and then a call of the first run is not made
		// again.
		assert.LessOrEqual(t, idle.Load()*50, cases.Load(),
			"too many cases in which no fault has struck: they say nothing")
	})
	for story, s := range stories {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			clean := tell(t, s, nil)
			require.Empty(t, clean.Broken, "without any fault")
			seen.by(clean)
			struck, n := 0, 0
			for i, call := range clean.Invocations() {
				f := world.Fault{Activity: call.Activity, Ordinal: call.Ordinal}
				if ofNodes(f.Activity) && s.Name != "start" && !strings.HasPrefix(s.Name, "node-") {
					continue // every story begins with the same calls about its two nodes
				}
				struck++
				for _, m := range modes(story + i) {
					f.Mode = m
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
			require.GreaterOrEqual(t, struck, leastCalls, "a story with so few calls tries nothing")
		})
	}
}

// called is what the stories have called without any fault.
type called struct {
	mu         sync.Mutex
	stories    int
	registered []string
	activities map[string]bool
}

// by takes in what a story has called.
func (c *called) by(w *world.World) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.activities == nil {
		c.registered, c.activities = w.Activities(), map[string]bool{}
	}
	c.stories++
	for _, i := range w.Invocations() {
		c.activities[i.Activity] = true
	}
}

// missing are the activities that the workers register, and that no story has called.
func (c *called) missing() []string {
	return slices.DeleteFunc(slices.Clone(c.registered), func(name string) bool { return c.activities[name] })
}

// modes are the ways to fail whose turn it is.
func modes(turn int) []world.Mode {
	all := world.Modes()
	if os.Getenv("VIRTFLOW_MATRIX") == "whole" {
		return all
	}
	var out []world.Mode
	for i, m := range all {
		if (i+turn)%4 == 0 {
			out = append(out, m)
		}
	}
	return out
}

// leastCalls is how many calls there are at least in every story for faults to strike.
const leastCalls = 3

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
	s.Play(w)
	return w
}
