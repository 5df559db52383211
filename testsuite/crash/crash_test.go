//go:build crash

package crash

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
)

// TestMain silences what client-go says about leaders.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// lanes is how many scenarios run at the same time. Most of what a case takes is waiting for time-outs of tasks that a dead worker had.
func lanes(t *testing.T) int {
	t.Helper()
	if v := os.Getenv("VIRTFLOW_CRASH_LANES"); v != "" {
		n, err := strconv.Atoi(v)
		require.NoError(t, err)
		return n
	}
	return 16
}

// kill is one case: the worker is killed after that many events of a scenario.
type kill struct {
	scenario scenario
	after    int
	want     string
}

func (k kill) String() string { return fmt.Sprintf("%s after event %d", k.scenario.name, k.after) }

// TestKilledAfterEveryEvent runs each scenario undisturbed, and then once for each of its events with the worker killed after it (events that
// are written together count as one). The end is the same each time. VIRTFLOW_CRASH_ONLY="start after event 17" runs one case alone, and
// VIRTFLOW_CRASH_ONLY=start all of one scenario.
func TestKilledAfterEveryEvent(t *testing.T) {
	program := newWorker(t)
	temporal := startTemporal(t)
	only := os.Getenv("VIRTFLOW_CRASH_ONLY")
	began := time.Now()
	all := make([]*lane, lanes(t))
	for i := range all {
		all[i] = newLane(t, temporal, fmt.Sprintf("lane-%d", i))
		all[i].startWorker(program)
	}

	var cases []kill
	events := 0
	var mu sync.Mutex
	var undisturbed sync.WaitGroup
	for i, sc := range scenarios() {
		if !strings.HasPrefix(only, sc.name) && only != "" {
			continue
		}
		l := all[i%len(all)]
		undisturbed.Go(func() {
			s, want, err := l.tell(sc, slug(sc.name), func() {}, func(int) {})
			if err != nil {
				t.Errorf("%s, undisturbed: %v\n%s\n%s", sc.name, err, s.tail(60), l.log())
				return
			}
			moments := s.moments()
			t.Logf("%s: %d events in %d transactions, after which:\n%s", sc.name, s.total(), len(moments), want)
			mu.Lock()
			defer mu.Unlock()
			events += s.total()
			for _, n := range moments {
				if k := (kill{sc, n, want}); only == "" || only == sc.name || only == k.String() {
					cases = append(cases, k)
				}
			}
		})
	}
	undisturbed.Wait()
	if t.Failed() {
		return
	}
	require.NotEmpty(t, cases)

	queue := make(chan kill, len(cases))
	for _, k := range cases {
		queue <- k
	}
	close(queue)
	var kills, broken atomic.Int64
	var working sync.WaitGroup
	for _, l := range all {
		working.Go(func() {
			for k := range queue {
				if n := len(queue); n%50 == 0 {
					t.Logf("%d cases to go after %s", n, time.Since(began).Round(time.Second))
				}
				struck, wrong := l.disturbed(k, program)
				if struck {
					kills.Add(1)
				}
				if len(wrong) > 0 {
					broken.Add(1)
					t.Errorf("%s (VIRTFLOW_CRASH_ONLY=%q make test-crash):\n%s\n%s", k, k, strings.Join(wrong, "\n"), l.log())
				}
			}
		})
	}
	working.Wait()
	fmt.Printf("crash at every event: kills %d (%d scenarios with %d events), invariants broken: %d (%s)\n",
		kills.Load(), len(scenarios()), events, broken.Load(), time.Since(began).Round(time.Second))
	require.Greater(t, int(kills.Load()), len(cases)*9/10, "most strikes must hit a scenario that still runs")
}

func slug(name string) string { return strings.ReplaceAll(name, " ", "-") }

// disturbed runs one case. It says whether the worker was killed while the scenario ran, and what was wrong.
func (l *lane) disturbed(k kill, program string) (struck bool, wrong []string) {
	var once sync.Once
	s, got, err := l.tell(k.scenario, fmt.Sprintf("%s-%d", slug(k.scenario.name), k.after), func() {}, func(n int) {
		if n != k.after {
			return
		}
		once.Do(func() {
			l.killWorkers()
			l.startWorker(program)
			struck = true
		})
	})
	if err != nil {
		wrong = append(wrong, err.Error(), s.tail(80))
	}
	if got != k.want {
		wrong = append(wrong, fmt.Sprintf("the end is another one:\n%s\nwithout a kill it is:\n%s", got, k.want))
	}
	once.Do(func() {}) // waits for one that is being made
	return struck, append(wrong, l.broken()...)
}
