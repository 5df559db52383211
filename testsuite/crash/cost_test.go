//go:build crash

package crash

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/histories"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// cost is the cost of one object's life, in its workflows' histories and in requests to the API server.
type cost struct{ events, tasks, failed, signals, startCalls, endCalls float64 }

func (c cost) String() string {
	return fmt.Sprintf("events %.1f, workflow tasks %.1f, failed tasks %.2f, signals %.1f; API calls of its start %.1f, "+
		"of its deletion %.1f", c.events, c.tasks, c.failed, c.signals, c.startCalls, c.endCalls)
}

// lived is a kind of life, with the limit of its cost. One more event in each life exceeds it. One more request, or a
// failed task, in up to three of ten lives does not: a machine that stalls for two seconds causes another read.
type lived struct {
	what   string // in the figures
	name   string // of its namespaces
	vm     bool
	create func(*story) error
	remove func(*story) error
	most   cost
}

func ways() []lived {
	return []lived{
		{"VM", "vm", true, (*story).admitVM, unreported[kubevirt.VirtualMachine],
			cost{events: 93.5, tasks: 14.8, failed: 0.3, signals: 10.8, startCalls: 8.3, endCalls: 12.3}},
		{"VM that another user deletes", "vm-reported", true, (*story).admitVM, (*story).delete,
			cost{events: 97.5, tasks: 15.8, failed: 0.3, signals: 11.8, startCalls: 8.3, endCalls: 12.3}},
		{"VMI", "vmi", false, (*story).createVMI, unreported[kubevirt.VirtualMachineInstance],
			cost{events: 43.5, tasks: 6.8, failed: 0.3, signals: 5.8, startCalls: 4.3, endCalls: 6.3}},
		{"VMI that another user deletes", "vmi-reported", false, (*story).createVMI, (*story).deleteVMI,
			cost{events: 47.5, tasks: 7.8, failed: 0.3, signals: 6.8, startCalls: 4.3, endCalls: 6.3}},
	}
}

// unreported deletes as the user who created the object, whom no webhook reports.
func unreported[T any, P kube.Pointer[T]](s *story) error {
	return kube.Remove[T, P](s.kube, s.namespace, vmName, nil)
}

// lives is the number of objects that live one after the other, each from its creation until it has run and is gone.
const lives = 10

// TestCostOfALife counts the cost of a VM and of a standalone VMI from their creation until they are gone, without a
// guest agent, on an idle server. It fails if the cost has grown: the counts depend a little on the machine's speed, so
// the limits have a margin. docs/performance.md has them.
func TestCostOfALife(t *testing.T) {
	l := newLane(t, startTemporal(t), "cost")
	program := newWorker(t)
	l.mu.Lock()
	l.workers = append(l.workers, l.launch("control-worker", program, "--launcher-image",
		"localhost/virtflow/launcher:dev"))
	l.mu.Unlock()
	var lines []string
	for _, c := range ways() {
		got := l.costOfLives(t, c)
		lines = append(lines, fmt.Sprintf("cost of a life (%s): %s", c.what, got))
		for _, x := range []struct {
			what      string
			got, most float64
		}{
			{"events", got.events, c.most.events}, {"workflow tasks", got.tasks, c.most.tasks},
			{"failed workflow tasks", got.failed, c.most.failed}, {"signals", got.signals, c.most.signals},
			{"API calls of a start", got.startCalls, c.most.startCalls},
			{"API calls of a deletion", got.endCalls, c.most.endCalls},
		} {
			if x.got > x.most {
				t.Errorf("%s of a life (%s): %.1f, more than %.1f", x.what, c.what, x.got, x.most)
			}
		}
	}
	suite.PrintFigures(t, "%s", strings.Join(lines, "\n"))
}

// admitVM creates a VM as admission would.
func (s *story) admitVM() error {
	strategy := kubevirt.RunStrategyAlways
	_, err := kube.Put(s.kube, &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: vmName,
			Finalizers: []string{contract.FinalizerVM}},
		Spec: kubevirt.VirtualMachineSpec{RunStrategy: &strategy, Template: s.template()},
	})
	return err
}

// createVMI creates an instance as a user does, without a VM.
func (s *story) createVMI() error {
	template := s.template()
	template.ObjectMeta.Namespace, template.ObjectMeta.Name = s.namespace, vmName
	_, err := kube.Put(s.kube, &kubevirt.VirtualMachineInstance{
		ObjectMeta: template.ObjectMeta, Spec: template.Spec,
	})
	return err
}

// costOfLives counts the cost of lives one after the other.
func (l *lane) costOfLives(t *testing.T, way lived) cost {
	t.Helper()
	var recorded histories.Count
	startCalls, endCalls := 0, 0
	starts, ends := usual{what: "start: " + way.what}, usual{what: "deletion: " + way.what}
	for i := range lives {
		s := &story{lane: l, follower: &follower{ctx: t.Context()}, namespace: fmt.Sprintf("cost-%s-%d", way.name, i)}
		_, err := kube.Put(l.kube, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
		require.NoError(t, err)
		calls := l.countCalls(s.namespace)
		require.NoError(t, way.create(s))
		up := func() error {
			if way.vm {
				return s.checkRunning(1, 1)
			}
			vmi := kube.Get[kubevirt.VirtualMachineInstance](l.kube, s.namespace, vmName)
			if vmi == nil || vmi.Status.Phase != kubevirt.Running || !kube.Ready(vmi) {
				return s.stateError()
			}
			return nil
		}
		until(t, patience, "it runs", up)
		until(t, patience, "there are no more requests", calls.settled)
		startCalls += starts.count(t, calls.take())
		require.NoError(t, way.remove(s))
		until(t, patience, "it is gone", s.checkNothingLeft)
		until(t, patience, "its workflows have closed", func() error { return s.checkEnded(t) })
		endCalls += ends.count(t, calls.take())
		l.countHistories(t, s, &recorded)
	}
	each := func(n int) float64 { return float64(n) / lives }
	return cost{events: each(recorded.Events), tasks: each(recorded.Tasks), failed: each(recorded.FailedTasks),
		signals: each(recorded.Signals), startCalls: each(startCalls), endCalls: each(endCalls)}
}

// ofStory returns a query for the workflows of a story.
func (s *story) ofStory() string { return contract.SearchNamespace + " = '" + s.namespace + "'" }

// checkEnded fails while a workflow of the story is open, or none is listed.
func (s *story) checkEnded(t *testing.T) error {
	count := func(query string) (int64, error) {
		n, err := s.lane.temporal.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: s.name, Query: query})
		return n.GetCount(), err
	}
	open, err := count(s.ofStory() + " AND ExecutionStatus = 'Running'")
	if err != nil {
		return err
	}
	all, err := count(s.ofStory())
	if err == nil && (open > 0 || all == 0) {
		err = fmt.Errorf("%d of %d workflows are open", open, all)
	}
	return err
}

// countHistories counts the events of a story's workflows.
func (l *lane) countHistories(t *testing.T, s *story, count *histories.Count) {
	t.Helper()
	var trace strings.Builder
	var last string
	require.NoError(t, histories.Each(t.Context(), l.temporal, l.name, s.ofStory(),
		func(workflow *common.WorkflowExecution, e *history.HistoryEvent) {
			if workflow.GetRunId() != last {
				last = workflow.GetRunId()
				fmt.Fprintln(&trace, workflow.GetWorkflowId())
			}
			fmt.Fprintf(&trace, "%4d %s %s\n", e.GetEventId(), e.GetEventTime().AsTime().Format("05.000"), detail(e))
			count.Add(e)
		}))
	if strings.HasSuffix(s.namespace, "-0") {
		t.Logf("one life:\n%s", trace.String())
	}
}

// calls are the programs' requests about the objects of a namespace.
type calls struct {
	mu   sync.Mutex
	last time.Time
	list []string
}

// countCalls counts the programs' requests about a namespace from now on, without watches and recorded events.
func (l *lane) countCalls(namespace string) *calls {
	c := &calls{}
	l.kube.Intercept(func(r kube.Request) *kube.Fault {
		if r.Namespace == namespace && r.Verb != "watch" && r.Resource != "events" &&
			strings.HasPrefix(r.UserAgent(), "virtflow-") {
			c.mu.Lock()
			c.last, c.list = time.Now(), append(c.list, r.Call())
			c.mu.Unlock()
		}
		return nil
	})
	return c
}

// settled fails while there was a request recently.
func (c *calls) settled() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.last) < time.Second {
		return fmt.Errorf("%d calls so far", len(c.list))
	}
	return nil
}

// take returns the requests since its last call.
func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list
	c.list = nil
	return list
}

// usual has the requests of one step, to compare lives.
type usual struct {
	what     string
	requests []string
}

// count counts a life's requests of the step. It logs them for the first life, and for a life with another number.
func (u *usual) count(t *testing.T, requests []string) int {
	t.Helper()
	if len(requests) != len(u.requests) {
		t.Logf("requests of the %s: %v", u.what, requests)
	}
	if u.requests == nil {
		u.requests = requests
	}
	return len(requests)
}
