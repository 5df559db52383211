package world

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"time"
	"unsafe"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
)

// backup holds a copy of Temporal's database.
type backup struct {
	runs  map[string]run
	ended map[string]*run
	token contract.FencingToken
}

// betweenRuns is the time until a workflow that is between two runs has a run again.
const betweenRuns = 3 * time.Millisecond

// complete closes a workflow of the test environment, which has no way to terminate one.
//
//go:linkname complete go.temporal.io/sdk/internal.(*testWorkflowEnvironmentImpl).Complete
func complete(env unsafe.Pointer, result *commonpb.Payloads, err error)

// close ends the run of a workflow at once: its code does not run again.
func (f *workflows) close(id string) {
	complete(f.environment(id), nil, &temporal.TerminatedError{})
	delete(f.runs, id)
}

// environment returns the test environment of an open run.
func (f *workflows) environment(id string) unsafe.Pointer {
	return f.world.engine("runningWorkflows").MapIndex(reflect.ValueOf(id)).Elem().FieldByName("env").UnsafePointer()
}

// engine returns a field of the test environment's implementation, by its name there.
func (w *World) engine(field string) reflect.Value {
	return reflect.ValueOf(w.env).Elem().FieldByName("impl").Elem().FieldByName(field)
}

// closeDoneChannel ends the goroutine of a run. The test environment does not do so for a run that continues as new,
// and each goroutine keeps its whole world in memory.
//
//go:linkname closeDoneChannel go.temporal.io/sdk/internal.(*testWorkflowEnvironmentImpl).closeDoneChannel
func closeDoneChannel(env unsafe.Pointer)

// stopTimers stops the timers that the test environment has started in real time and never stops: the time limit of its
// root workflow is one day, and keeps the world in memory for as long.
func (w *World) stopTimers() {
	timers := w.engine("timers")
	for _, key := range timers.MapKeys() {
		if t := timers.MapIndex(key).Elem().FieldByName("wallTimer"); !t.IsNil() {
			reflect.NewAt(t.Type().Elem(), t.UnsafePointer()).MethodByName("Stop").Call(nil)
		}
	}
}

// closeAll ends all runs: an open one would keep its coroutines, and with them the world, for as long as the tests run.
func (f *workflows) closeAll() {
	for _, id := range slices.Sorted(maps.Keys(f.runs)) {
		if f.runs[id].open {
			f.close(id)
		}
	}
}

// settled calls do once no workflow is between two runs.
func (f *workflows) settled(do func()) {
	for _, r := range f.runs {
		if !r.open {
			f.world.after(betweenRuns, func() { f.settled(do) })
			return
		}
	}
	do()
}

// Terminate terminates the workflow of an entity, as temporal workflow terminate does.
func (w *World) Terminate(id string) {
	f := w.workflows
	f.settled(func() {
		if r := f.runs[id]; r != nil {
			w.tracef("%s: terminated", id)
			f.close(id)
			f.ended[id] = r
		}
	})
}

// LoseHistory empties Temporal's database.
func (w *World) LoseHistory() { w.PutBackHistory(backup{}) }

// PutBackHistory replaces Temporal's database by a copy.
func (w *World) PutBackHistory(b backup) {
	f := w.workflows
	f.settled(func() {
		w.tracef("Temporal's database is put back to a copy with %d workflows, token %+v", len(b.runs), b.token)
		for _, id := range f.names() {
			f.close(id)
		}
		f.ended, f.token = map[string]*run{}, b.token
		maps.Copy(f.ended, b.ended)
		for _, id := range slices.Sorted(maps.Keys(b.runs)) {
			r := b.runs[id]
			if !r.deadline.IsZero() { // its timer starts again
				r.began, r.deadline = w.Now(), w.Now().Add(r.deadline.Sub(r.began))
			}
			f.runs[id], f.restarting[id] = &r, true
			w.env.SignalWorkflow(signalStart, id)
		}
	})
}

// backup copies Temporal's database. A restored run continues like one that has continued as new: with the state that
// it had when it was last settled, because only its own code knows the progress of a step. A transition begins again.
func (f *workflows) backup() backup {
	b := backup{runs: map[string]run{}, ended: map[string]*run{}, token: f.token}
	for id, r := range f.runs {
		f.settle(id, r)
		copied := *r
		if in, ok := r.input.(contract.EntityInput); ok {
			in.Carried = r.settled
			copied.input = in
		}
		copied.open = false
		b.runs[id] = copied
	}
	maps.Copy(b.ended, f.ended)
	return b
}

// settle stores the state of an entity that has no step in hand and waits for no node worker.
func (f *workflows) settle(id string, r *run) {
	if !r.open || isTransition(r.kind) {
		return
	}
	var plan struct {
		Step any `json:"step"`
	}
	var state struct {
		Starting bool `json:"starting"`
		Asking   bool `json:"asking"`
		// Open has a migration's steps on nodes, and in other entities the transition: that continues by itself.
		Open json.RawMessage `json:"open"`
	}
	var raw json.RawMessage
	if v, err := f.world.env.QueryWorkflowByID(id, contract.QueryPlan); err != nil || v.Get(&plan) != nil ||
		plan.Step != nil {
		return
	}
	v, err := f.world.env.QueryWorkflowByID(id, contract.QueryState)
	if err != nil || v.Get(&raw) != nil || json.Unmarshal(raw, &state) != nil || state.Starting || state.Asking ||
		r.kind == contract.WorkflowMigration && len(state.Open) > 0 {
		return
	}
	r.settled = raw
}
