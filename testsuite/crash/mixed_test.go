//go:build crash

package crash

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// mix is how an old and a new release of the control worker share a scenario.
type mix struct {
	scenario scenario
	name     string
	first    string // program that runs when the scenario begins
	// turns are the programs that run from that number of events on; several programs run at the same time.
	turns map[int][]string
}

// TestOldAndNewWorkers runs scenarios while the release's control worker is replaced by this one, as in a rolling
// update: at each event of the scenario one is killed and the other started, back and forth, and both at once. A run
// that only one of them can continue waits for it. At the end only the new one runs, as after a finished update.
func TestOldAndNewWorkers(t *testing.T) {
	tag, commit, why := oldRelease(t)
	if why != "" {
		suite.PrintFigures(t, "crash at every event: old and new mixed: 0 (%s)", why)
		t.Skip(why)
	}
	suite.PrintFigures(t, "crash at every event: old and new mixed: the old one is %s, commit %s", tag, commit)
	old := oldWorker(t, commit)
	program := newWorker(t)
	temporal := startTemporal(t)
	began := time.Now()
	all := make([]*lane, lanes(t))
	for i := range all {
		all[i] = newLane(t, temporal, fmt.Sprintf("mixed-%d", i))
	}
	queue := make(chan mix, 10000)
	total := 0
	for _, sc := range scenarios() {
		for _, m := range mixes(sc, old, program) {
			queue <- m
			total++
		}
	}
	close(queue)
	var done, broken atomic.Int64
	var working sync.WaitGroup
	for _, l := range all {
		working.Go(func() {
			for m := range queue {
				done.Add(1)
				if wrong := l.mixed(m, program); len(wrong) > 0 {
					broken.Add(1)
					t.Errorf("%s, %s:\n%s\n%s", m.scenario.name, m.name, strings.Join(wrong, "\n"), l.log())
				}
			}
		})
	}
	working.Wait()
	suite.PrintFigures(t, "crash at every event: old and new mixed: %d, invariants broken: %d (%s)", done.Load(),
		broken.Load(), time.Since(began).Round(time.Second))
	require.Equal(t, total, int(done.Load()))
}

// mixes returns the ways to share one scenario.
func mixes(sc scenario, old, program string) []mix {
	out := []mix{
		{sc, "both from the beginning", "", map[int][]string{0: {old, program}}},
		{sc, "back and forth after every 5 events", old, alternating(5, program, old)},
		{sc, "back and forth after every 17 events", program, alternating(17, old, program)},
	}
	for _, n := range []int{1, 4, 8, 13, 20, 30, 45, 60, 80, 110} {
		out = append(out,
			mix{sc, fmt.Sprintf("new after event %d", n), old, map[int][]string{n: {program}}},
			mix{sc, fmt.Sprintf("new beside old after event %d", n), old, map[int][]string{n: {old, program}}},
			mix{sc, fmt.Sprintf("back to old after event %d, then new", n), program,
				map[int][]string{n: {old}, n + 10: {program}}},
		)
	}
	return out
}

// alternating changes the program after every so many events.
func alternating(every int, programs ...string) map[int][]string {
	out := map[int][]string{}
	for i := range 20 {
		out[(i+1)*every] = []string{programs[i%len(programs)]}
	}
	return out
}

// updateTime is the time without a turn after which the update finishes: only the new program runs then.
const updateTime = 4 * time.Second

// update changes the programs of a lane.
type update struct {
	lane *lane
	mix  mix

	mu       sync.Mutex
	finished bool
	finish   *time.Timer
}

func (u *update) turn(programs ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.finished {
		return
	}
	u.lane.killWorkers()
	for _, p := range programs {
		u.lane.startWorker(p)
	}
}

// mixed runs one case, and returns what was wrong.
func (l *lane) mixed(m mix, program string) []string {
	u := &update{lane: l, mix: m}
	if m.first != "" {
		u.turn(m.first)
	} else {
		u.turn(m.turns[0]...)
	}
	finish := func() {
		u.turn(program)
		u.mu.Lock()
		defer u.mu.Unlock()
		u.finished = true
	}
	namespace := fmt.Sprintf("%s-%s", slug(m.scenario.name), strings.NewReplacer(" ", "-", ",", "").Replace(m.name))
	s, _, err := l.play(m.scenario, namespace, func() { u.finish = time.AfterFunc(updateTime, finish) }, func(n int) {
		if p, ok := m.turns[n]; ok {
			u.turn(p...)
			u.finish.Reset(updateTime)
		}
	}, "")
	if u.finish != nil {
		u.finish.Stop()
	}
	var wrong []string
	if err != nil {
		wrong = append(wrong, err.Error(), s.tail(80))
	}
	return append(wrong, l.broken()...)
}
