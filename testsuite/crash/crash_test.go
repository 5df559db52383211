//go:build crash

package crash

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestMain removes the programs that tests have built.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if built.folder, err = os.MkdirTemp("", "virtflow-crash"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(built.folder)
		return m.Run()
	}())
}

// lanes returns how many scenarios run at the same time. Most of a case's duration is the wait for timeouts of a dead
// worker's tasks.
func lanes(t *testing.T) int {
	t.Helper()
	if v := os.Getenv("VIRTFLOW_CRASH_LANES"); v != "" {
		n, err := strconv.Atoi(v)
		require.NoError(t, err)
		return n
	}
	return 16
}

// kill is one case: the control worker or crdwatch is killed once, after an event of a scenario, or the control worker
// at a write.
type kill struct {
	scenario scenario
	event    int // the number of the event, or
	write    int // the number of the write: it takes effect, and the worker does not get the answer
	crdwatch bool
	another  bool // another pod of crdwatch takes over, and crdwatch does not restart in its own pod
	want     string
}

func (k kill) String() string {
	switch {
	case k.write > 0:
		return fmt.Sprintf("%s at write %d", k.scenario.name, k.write)
	case k.another:
		return fmt.Sprintf("%s other crdwatch after event %d", k.scenario.name, k.event)
	case k.crdwatch:
		return fmt.Sprintf("%s crdwatch after event %d", k.scenario.name, k.event)
	}
	return fmt.Sprintf("%s after event %d", k.scenario.name, k.event)
}

// anotherPod is the interval of the kills of crdwatch after which another pod takes over: each waits for the lease to
// expire.
const anotherPod = 7

// TestKilledAfterEveryEvent runs each scenario undisturbed, and then once for each of its events with the control
// worker killed after it (events of one transaction count as one), once for each write to Kubernetes with the worker
// killed before it gets the answer, and, if the scenario says so, once for each event with crdwatch killed after it.
// The end is the same each time. VIRTFLOW_CRASH_ONLY="start after event 17" runs one case alone,
// VIRTFLOW_CRASH_ONLY=start all of one scenario, and VIRTFLOW_CRASH_ONLY="start at write", or "start crdwatch", those.
// VIRTFLOW_CRASH_EVERY=4 runs every fourth case, others with another VIRTFLOW_TURN.
func TestKilledAfterEveryEvent(t *testing.T) {
	began := time.Now()
	s := &cases{T: t, program: newWorker(t), only: os.Getenv("VIRTFLOW_CRASH_ONLY"), began: began,
		kills: map[bool]*atomic.Int64{false: {}, true: {}}}
	temporal := startTemporal(t)
	for i := range lanes(t) {
		l := newLane(t, temporal, fmt.Sprintf("lane-%d", i))
		l.startWorker(s.program)
		s.lanes = append(s.lanes, l)
	}
	var undisturbed sync.WaitGroup
	for i, sc := range scenarios() {
		if s.only == "" || strings.HasPrefix(s.only, sc.name) {
			undisturbed.Go(func() { s.undisturbed(s.lanes[i%len(s.lanes)], sc) })
		}
	}
	undisturbed.Wait()
	if t.Failed() {
		return
	}
	s.thin(t)
	require.NotEmpty(t, s.cases)
	s.run()
	kills, crdwatch := s.kills[false].Load(), s.kills[true].Load()
	suite.PrintFigures(t, "crash at every event: kills %d of the control worker, %d of crdwatch (%d scenarios with %d "+
		"events and %d writes), invariants broken: %d (%s)\n%s", kills, crdwatch, len(scenarios()), s.events, s.writes,
		s.broken.Load(), time.Since(began).Round(time.Second), s.migration)
	require.Greater(t, int(kills+crdwatch), len(s.cases)*9/10, "most kills must strike a running scenario")
}

// cases is one run of all cases.
type cases struct {
	*testing.T
	program, only string
	began         time.Time
	lanes         []*lane

	mu             sync.Mutex
	cases          []kill
	events, writes int
	migration      string // the cost of one, undisturbed

	kills  map[bool]*atomic.Int64 // by whether crdwatch was killed
	broken atomic.Int64
}

// mostEvents is the limit for the history of a successful migration's own workflow.
const mostEvents = 150

// undisturbed runs a scenario to find the points at which processes can be killed, and the state at its end.
func (s *cases) undisturbed(l *lane, sc scenario) {
	undisturbed, want, err := l.play(sc, slug(sc.name), func() {
		l.onWrite(func(int) bool { return false })
	}, func(int) {}, "")
	if err != nil {
		s.Errorf("%s, undisturbed: %v\n%s\n%s", sc.name, err, undisturbed.tail(60), l.log())
		return
	}
	moments := undisturbed.moments()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Logf("%s: %d events in %d transactions, and %d writes, after which:\n%s", sc.name, undisturbed.total(),
		len(moments), undisturbed.writes, want)
	if n := undisturbed.events[contract.MigrationID(undisturbed.namespace, vmName)]; n > 0 {
		s.migration = fmt.Sprintf("a migration: events %d in its workflow, %d in its instance's, calls of the API server: "+
			"%d reads, %d writes with events", n, undisturbed.events[contract.VMIID(undisturbed.namespace, vmName)],
			undisturbed.reads, undisturbed.writes)
		if n > mostEvents {
			s.Errorf("%s: a migration's workflow has a history of %d events, more than %d", sc.name, n, mostEvents)
		}
	}
	s.events += undisturbed.total()
	s.writes += undisturbed.writes
	var all []kill
	for _, n := range moments {
		all = append(all, kill{scenario: sc, event: n, want: want})
	}
	for n := range undisturbed.writes {
		all = append(all, kill{scenario: sc, write: n + 1, want: want})
	}
	if sc.crdwatch {
		for i, n := range moments {
			all = append(all, kill{scenario: sc, event: n, crdwatch: true, another: i%anotherPod == 0, want: want})
		}
	}
	for _, k := range all {
		if s.only == "" || s.only == k.String() || strings.HasPrefix(k.String(), s.only+" ") {
			s.cases = append(s.cases, k)
		}
	}
}

// thin keeps every n-th case, if the environment asks for that.
func (s *cases) thin(t *testing.T) {
	text := os.Getenv("VIRTFLOW_CRASH_EVERY")
	if text == "" {
		return
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "VIRTFLOW_CRASH_EVERY must be a number")
	require.Positive(t, n, "VIRTFLOW_CRASH_EVERY")
	var kept []kill
	run, _ := suite.Turn(t)
	for i, k := range s.cases {
		if i%n == run%n {
			kept = append(kept, k)
		}
	}
	s.cases = kept
}

// run distributes the cases to the lanes.
func (s *cases) run() {
	queue := make(chan kill, len(s.cases))
	for _, k := range s.cases {
		queue <- k
	}
	close(queue)
	var working sync.WaitGroup
	for _, l := range s.lanes {
		working.Go(func() {
			for k := range queue {
				if n := len(queue); n%50 == 0 {
					s.Logf("%d cases to go after %s", n, time.Since(s.began).Round(time.Second))
				}
				struck, wrong := l.disturbed(k, s.program)
				if struck {
					s.kills[k.crdwatch].Add(1)
				}
				if len(wrong) > 0 {
					s.broken.Add(1)
					s.Errorf("%s (VIRTFLOW_CRASH_ONLY=%q make test-crash):\n%s\n%s", k, k, strings.Join(wrong, "\n"),
						l.log())
				}
			}
		})
	}
	working.Wait()
}

func slug(name string) string { return strings.ReplaceAll(name, " ", "-") }

// disturbed runs one case. It returns whether a process was killed while the scenario ran, and what was wrong.
func (l *lane) disturbed(k kill, program string) (struck bool, wrong []string) {
	var once sync.Once
	strike := func() {
		once.Do(func() {
			struck = true
			if k.crdwatch {
				l.killCrdwatch(k.another)
				return
			}
			l.killWorkers()
			l.startWorker(program)
		})
	}
	defer l.stopWrites()
	namespace := strings.ReplaceAll(k.String(), " ", "-")
	s, _, err := l.play(k.scenario, namespace, func() {
		l.onWrite(func(n int) bool {
			if n == k.write {
				strike()
			}
			return n == k.write
		})
	}, func(n int) {
		if n == k.event {
			strike()
		}
	}, k.want)
	if err != nil {
		wrong = append(wrong, err.Error(), s.tail(80))
	}
	once.Do(func() {}) // waits for a kill that is under way
	return struck, append(wrong, l.broken()...)
}
