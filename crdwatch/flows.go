package crdwatch

import (
	"context"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"

	"github.com/virtflow/virtflow/workflows/contract"
)

// flows hold back what is asked of workflows that run. Each namespace has a flow for each kind of workflow: none waits
// for another's, and what has begun at one kind does not wait for what is to begin at another.
type flows struct {
	// queue are those in which something waits.
	queue workqueue.TypedInterface[string]
	// window is what each begins with.
	window window

	mu      sync.Mutex
	of      map[string]*flow // by the first two parts of workflow IDs
	waiting sets.Set[string] // workflows
}

type flow struct {
	window    window
	workflows []string
	used      time.Time
}

// flowWindow is how many requests of one flow are sent until the workflow of the last one is waited for. Each brings
// several tasks, one after the other, to entities that are in a control worker's cache. Those wait in that worker's
// sticky queue, in the order of arrival, whoever has asked for them, and longer than five seconds only to be put into
// the queue of all workers, and replayed: few must be there at a time.
const flowWindow = 4

func newFlows() *flows {
	return &flows{queue: workqueue.NewTyped[string](), of: map[string]*flow{}, waiting: sets.New[string]()}
}

// add has a workflow wait for its turn in its flow.
func (l *flows) add(workflow string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting.Has(workflow) {
		return
	}
	name := path.Dir(workflow)
	if l.of[name] == nil {
		maps.DeleteFunc(l.of, func(_ string, old *flow) bool {
			return len(old.workflows) == 0 && time.Since(old.used) > windowWait
		})
		l.of[name] = &flow{window: l.window}
	}
	l.of[name].workflows = append(l.of[name].workflows, workflow)
	l.waiting.Insert(workflow)
	l.queue.Add(name)
}

// run hands workflows over as fast as their flows go, until the queue is shut down. Several may run at once.
func (l *flows) run(ctx context.Context, handOver func(workflow string)) {
	for {
		name, shutdown := l.queue.Get()
		if shutdown {
			return
		}
		if flow, workflow := l.next(name); workflow != "" {
			flow.window.wait(ctx, workflow)
			l.left(workflow)
			handOver(workflow)
			l.queue.Add(name) // behind the others
		}
		l.queue.Done(name)
	}
}

// next takes the first workflow of a flow; "": none waits there.
func (l *flows) next(name string) (*flow, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	flow := l.of[name]
	if flow == nil || len(flow.workflows) == 0 {
		return nil, ""
	}
	workflow := flow.workflows[0]
	flow.workflows, flow.used = flow.workflows[1:], time.Now()
	return flow, workflow
}

// left notes that a workflow waits no more.
func (l *flows) left(workflow string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.Delete(workflow)
}

// asksOfVM and asksOfVMI say that somebody asks something of a workflow with what has changed in its object. What it
// waits for does not, nor that it has taken back a request that is done.
func asksOfVM(last, now contract.VMObservation) bool {
	return last.Generation != now.Generation || last.DeletionTimestamp == nil && now.DeletionTimestamp != nil ||
		slices.ContainsFunc(now.StateChangeRequests, func(asked contract.StateChangeRequest) bool {
			return !slices.ContainsFunc(last.StateChangeRequests, asked.Same)
		})
}

func asksOfVMI(last, now contract.VMIObservation) bool {
	return last.DeletionTimestamp == nil && now.DeletionTimestamp != nil
}
