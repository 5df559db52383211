package world_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
	"github.com/virtflow/virtflow/testsuite/world"
)

// seeds is how often each story runs with each kind of chaos.
const seeds = 3

// kinds returns each kind of chaos alone, and all of them together.
func kinds() map[string]world.Chaos {
	return map[string]world.Chaos{
		"duplicated": {Duplicate: 1, LateBy: 30 * time.Second},
		"delayed":    {Delay: 0.5, LateBy: 20 * time.Second},
		"reordered":  {Delay: 0.9, LateBy: 300 * time.Millisecond},
		"dropped":    {Drop: 0.3},
		"everything": {Duplicate: 0.3, Delay: 0.4, Drop: 0.2, LateBy: 2 * time.Minute},
	}
}

// TestSignalChaos runs every story with observations that are duplicated, late, out of order, or lost by a Temporal
// that answers again later. The story must end as it does without chaos. In continuous integration the seeds of a story
// take turns.
func TestSignalChaos(t *testing.T) {
	first := seed(t)
	var runs, broken atomic.Int64
	var mutex sync.Mutex
	happened := map[string]world.Happened{}
	t.Cleanup(func() {
		suite.PrintFigures(t, "signal chaos: runs %d, invariants broken: %d", runs.Load(), broken.Load())
		require.NotEmpty(t, happened, "no story ran")
		for kind, h := range happened {
			c := kinds()[kind]
			require.Positive(t, h.Sent, "%s: nothing was sent", kind)
			require.Equal(t, c.Duplicate > 0, h.Duplicated > 0, "%s: %d were sent twice", kind, h.Duplicated)
			require.Equal(t, c.Delay > 0, h.Delayed > 0, "%s: %d were late", kind, h.Delayed)
			require.Equal(t, c.Drop > 0, h.Dropped > 0, "%s: %d were lost", kind, h.Dropped)
		}
	})
	for story, s := range world.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			for kind, chaos := range kinds() {
				for i := range seeds {
					if !suite.IsDue(t, story+i) {
						continue
					}
					chaos.Seed = first + uint64(i)
					t.Run(fmt.Sprintf("%s-%d", kind, chaos.Seed), func(t *testing.T) {
						o := s.Options
						o.Chaos = chaos
						o.AlwaysContinueAsNew = i%2 == 1
						w, err := world.New(o)
						require.NoError(t, err)
						s.Play(w)
						runs.Add(1)
						mutex.Lock()
						happened[kind] = happened[kind].Plus(w.Happened())
						mutex.Unlock()
						broken.Add(int64(len(w.Broken)))
						reportBroken(t, w)
					})
				}
			}
		})
	}
}

// seed returns $VIRTFLOW_SEED, or 1, so that a failure can be repeated.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("VIRTFLOW_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}
