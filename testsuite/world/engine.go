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

	"github.com/virtflow/virtflow/workflows/contract"
)

// backup is a copy of Temporal's database.
type backup struct {
	runs  map[string]run
	ended map[string]*run
	token contract.FencingToken
}

// betweenRuns is how long it takes until a workflow that is between two runs has a run again.
const betweenRuns = 3 * time.Millisecond

// complete closes a workflow of the test environment, which has no way to terminate one.
//
//go:linkname complete go.temporal.io/sdk/internal.(*testWorkflowEnvironmentImpl).Complete
func complete(env unsafe.Pointer, result *commonpb.Payloads, err error)

// close ends the run of a workflow at once: its code does nothing any more.
func (f *workflows) close(id string) {
	complete(f.environment(id), nil, &temporal.TerminatedError{})
	delete(f.runs, id)
}

// environment is the test environment's own of a run that is open.
func (f *workflows) environment(id string) unsafe.Pointer {
	return f.world.engine("runningWorkflows").MapIndex(reflect.ValueOf(id)).Elem().FieldByName("env").UnsafePointer()
}

// engine is a field of what the test environment is made of, by the name that it has there.
func (w *World) engine(field string) reflect.Value {
	return reflect.ValueOf(w.env).Elem().FieldByName("impl").Elem().FieldByName(field)
}

// closeDoneChannel ends the goroutine of a run. The test environment forgets that where one continues as new, and each
// keeps its whole world.
//
//go:linkname closeDoneChannel go.temporal.io/sdk/internal.(*testWorkflowEnvironmentImpl).closeDoneChannel
func closeDoneChannel(env unsafe.Pointer)

// stopTimers stops what the environment has left in the process's own time, for which it has no end: the time limit of
// its root is one of a day, and keeps the world for as long.
func (w *World) stopTimers() {
	timers := w.engine("timers")
	for _, key := range timers.MapKeys() {
		if t := timers.MapIndex(key).Elem().FieldByName("wallTimer"); !t.IsNil() {
			reflect.NewAt(t.Type().Elem(), t.UnsafePointer()).MethodByName("Stop").Call(nil)
		}
	}
}

// closeAll ends all: what goes on would keep its coroutines, and with them the world, for as long as the tests run.
func (f *workflows) closeAll() {
	for _, id := range slices.Sorted(maps.Keys(f.runs)) {
		if f.runs[id].open {
			f.close(id)
		}
	}
}

// settled runs do once every workflow has a run, or none.
func (f *workflows) settled(do func()) {
	for _, r := range f.runs {
		if !r.open {
			f.world.after(betweenRuns, func() { f.settled(do) })
			return
		}
	}
	do()
}

// Terminate ends the workflow of an entity by hand, as temporal workflow terminate does.
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

// PutBackHistory puts a copy in the place of Temporal's database.
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
			if !r.deadline.IsZero() { // it waits as long again
				r.began, r.deadline = w.Now(), w.Now().Add(r.deadline.Sub(r.began))
			}
			f.runs[id], f.restarting[id] = &r, true
			w.env.SignalWorkflow(signalStart, id)
		}
	})
}

// backup copies Temporal's database. A run that is put back goes on as one that has continued as new: with the state
// that it had when it was last settled, since nothing but its own code knows how far a step was. A transition begins
// again.
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

// settle notes the state of an entity that has no step in hand and waits for no node's worker.
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
		// Open are a migration's steps on nodes, and in other entities the transition: that goes on by itself.
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
