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

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
	"github.com/virtflow/virtflow/testsuite/world"
)

// TestFaultMatrix lets every activity invocation of every story fail in every way. All invariants must hold; the story
// must reach its end, or report what failed; and when everything is deleted, nothing may be left. The modes take turns,
// so that each invocation meets a quarter of them, and each activity all of them over the stories; with
// VIRTFLOW_MATRIX=whole each invocation meets all modes. In continuous integration the cases take turns as well. Every
// registered activity is called by a story.
func TestFaultMatrix(t *testing.T) {
	var cases, idle, broken atomic.Int64
	var seen called
	stories := world.Scenarios()
	t.Cleanup(func() {
		if seen.stories == len(stories) { // -run may have chosen some
			assert.Empty(t, seen.missing(), "no story calls these activities, so no case lets them fail")
		}
		suite.PrintFigures(t, "fault matrix: cases %d, invariants broken: %d (faults that struck no call: %d)",
			cases.Load(), broken.Load(), idle.Load())
		// Signals and activities race as they do with a real server, so sometimes a call of the first run is not made
		// again.
		assert.LessOrEqual(t, idle.Load()*50, cases.Load(),
			"too many cases in which no fault has struck: they prove nothing")
	})
	for story, s := range stories {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			clean := playWithFault(t, s, nil)
			require.Empty(t, clean.Broken, "without any fault")
			seen.add(clean)
			struck, n := 0, 0
			for i, call := range clean.Invocations() {
				f := world.Fault{Activity: call.Activity, Ordinal: call.Ordinal}
				if isNodeActivity(f.Activity) && s.Name != "start" && !strings.HasPrefix(s.Name, "node-") {
					continue // every story begins with the same calls about its two nodes
				}
				struck++
				for _, m := range modes(story + i) {
					f.Mode = m
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
			require.GreaterOrEqual(t, struck, leastCalls, "a story with so few calls proves nothing")
		})
	}
}

// called has the activities that the stories have called without any fault.
type called struct {
	mu         sync.Mutex
	stories    int
	registered []string
	activities map[string]bool
}

// add adds the calls of one story.
func (c *called) add(w *world.World) {
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

// missing returns the registered activities that no story has called.
func (c *called) missing() []string {
	return slices.DeleteFunc(slices.Clone(c.registered), func(name string) bool { return c.activities[name] })
}

// modes returns the modes whose turn it is.
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

// leastCalls is the smallest number of calls that a story must have for faults to strike.
const leastCalls = 3

func isNodeActivity(activity string) bool {
	return activity == contract.ActivityPatchNode || activity == contract.ActivityReportNode
}

// playWithFault plays a story with a fault in it.
func playWithFault(t *testing.T, s world.Scenario, f *world.Fault) *world.World {
	t.Helper()
	o := s.Options
	o.Fault = f
	w, err := world.New(o)
	require.NoError(t, err)
	s.Play(w)
	return w
}
