package delivery

import (
	"context"
	"maps"
	"path"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
)

// flows hold back requests to workflows that run. Each namespace has one flow for each kind of workflow. None waits for
// another's, and requests to one kind do not delay those to another.
type flows struct {
	// queue has the flows in which something waits.
	queue workqueue.TypedInterface[string]
	// window is the initial window of each flow.
	window window

	mu      sync.Mutex
	byName  map[string]*flow // by the first two parts of workflow IDs
	waiting sets.Set[string] // workflows
}

type flow struct {
	window    window
	workflows []string
	used      time.Time
}

// flowWindow is how many requests of one flow are sent before the flow waits until the workflow of the last one has
// processed it. Each request causes several tasks, one after the other, for entities that are in a control worker's
// cache. Those tasks wait in that worker's sticky queue in the order of arrival, whatever their namespace. After five
// seconds there they move to the queue of all workers, where the workflow is replayed. So few may be there at a time.
const flowWindow = 4

func newFlows(w window) *flows {
	return &flows{window: w, queue: workqueue.NewTyped[string](), byName: map[string]*flow{},
		waiting: sets.New[string]()}
}

// add appends a workflow to its flow.
func (l *flows) add(workflow string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting.Has(workflow) {
		return
	}
	name := path.Dir(workflow)
	if l.byName[name] == nil {
		maps.DeleteFunc(l.byName, func(_ string, old *flow) bool {
			return len(old.workflows) == 0 && time.Since(old.used) > windowWait
		})
		l.byName[name] = &flow{window: l.window}
	}
	l.byName[name].workflows = append(l.byName[name].workflows, workflow)
	l.waiting.Insert(workflow)
	l.queue.Add(name)
}

// run hands workflows over as fast as their flows permit, until the queue is shut down. Several goroutines may run it.
func (l *flows) run(ctx context.Context, handOver func(workflow string)) {
	for {
		name, shutdown := l.queue.Get()
		if shutdown {
			return
		}
		if flow, workflow := l.takeNext(name); workflow != "" {
			flow.window.wait(ctx, workflow)
			l.remove(workflow)
			handOver(workflow)
			l.queue.Add(name) // behind the other flows
		}
		l.queue.Done(name)
	}
}

// takeNext removes and returns the first workflow of a flow; "": none waits there.
func (l *flows) takeNext(name string) (*flow, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	flow := l.byName[name]
	if flow == nil || len(flow.workflows) == 0 {
		return nil, ""
	}
	workflow := flow.workflows[0]
	flow.workflows, flow.used = flow.workflows[1:], time.Now()
	return flow, workflow
}

// remove records that a workflow no longer waits.
func (l *flows) remove(workflow string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.Delete(workflow)
}
