package world

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
)

// run is the present run of an entity or a transition.
type run struct {
	kind string
	// open: its code runs and receives signals. It is false between two runs of a chain.
	open bool
	// attributes are its search attributes (keywords).
	attributes map[string]string
	began      time.Time
	deadline   time.Time // of a transition
	// updates are the Updates that the present run has received, by ID.
	updates map[string]*update
	// input has the present run's input; settled is the entity's state when it was last copied in a
	// settled state.
	input   any
	settled []byte
	// parent is the ID of the entity that opened a transition.
	parent string
}

// workflows starts entities by signal, as Temporal's SignalWithStart does, and knows which workflows run.
type workflows struct {
	world *World
	runs  map[string]*run
	// ended has the last runs of workflows that are closed, as Temporal does.
	ended map[string]*run
	// starting has deliveries that wait until their workflow has started.
	starting map[string][]*delivery.Delivery
	// restarting has workflows that continue from a copy.
	restarting map[string]bool
	// taken counts the signals that the workflows' channels have received, by workflow and signal.
	taken map[string]int
	// token is the fencing token in Temporal; zero: there is none.
	token contract.FencingToken
}

const signalStart = "start"

// root is the workflow that is the parent of all others. The script runs in it.
func (w *World) root(ctx workflow.Context) error {
	workflow.Go(ctx, func(ctx workflow.Context) {
		requests := workflow.GetSignalChannel(ctx, signalStart)
		for {
			var id string
			requests.Receive(ctx, &id)
			w.workflows.begin(ctx, id)
		}
	})
	w.ctx = ctx
	w.script()
	return nil
}

// begin starts one entity and delivers what waits for it.
func (f *workflows) begin(ctx workflow.Context, id string) {
	waiting := f.starting[id]
	delete(f.starting, id)
	restarting := f.restarting[id]
	delete(f.restarting, id)
	switch {
	case restarting:
	case len(waiting) > 0 && f.isClosed(id):
		start := waiting[0].Start
		f.runs[id] = &run{kind: start.Type, attributes: start.Search, began: workflow.Now(ctx), input: start.Input}
	default:
		for _, d := range waiting {
			f.world.send(d)
		}
		return
	}
	r := f.runs[id]
	ctx = workflow.WithChildOptions(ctx,
		workflow.ChildWorkflowOptions{WorkflowID: id, TaskQueue: contract.ControlTaskQueue, WaitForCancellation: true})
	child := workflow.ExecuteChildWorkflow(ctx, r.kind, r.input)
	if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		f.world.breakf("workflow %s could not be started: %v", id, err)
		return
	}
	if r.parent != "" { // the test environment does not notify its entity of its end
		f.world.send(&delivery.Delivery{Workflow: id, Signal: contract.SignalDetached})
	}
	for _, d := range waiting {
		f.world.send(d)
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := child.Get(ctx, nil)
		if f.runs[id] != r { // terminated, or a transition
			return
		}
		if err != nil && !f.world.ending {
			f.world.breakf("entity %s failed: %v", id, err)
		}
		f.world.tracef("%s: ended", id)
		f.ended[id] = r
		delete(f.runs, id)
	})
}

func (f *workflows) isClosed(id string) bool { return f.runs[id] == nil }

// deliver signals a workflow, and starts it if the delivery asks for that; it reports whether the workflow was not
// between two runs.
func (f *workflows) deliver(d *delivery.Delivery) bool {
	r := f.runs[d.Workflow]
	switch {
	case r == nil && d.Start == nil && len(f.starting[d.Workflow]) == 0:
		return true // no workflow receives it
	case r == nil:
		f.starting[d.Workflow] = append(f.starting[d.Workflow], d)
		f.world.env.SignalWorkflow(signalStart, d.Workflow)
		return true
	case !r.open:
		return false
	}
	return f.world.env.SignalWorkflowByID(d.Workflow, d.Signal, d.Payload) == nil
}

// names returns the IDs of all workflows that run, sorted.
func (f *workflows) names() []string {
	var out []string
	for id := range f.runs {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// kinds returns the types of all workflows that run, sorted.
func (f *workflows) kinds() []string {
	var out []string
	for _, r := range f.runs {
		out = append(out, r.kind)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// intercept gives workflows access to the world.
type intercept struct {
	interceptor.WorkerInterceptorBase
	world *World
}

// InterceptWorkflow wraps every workflow.
func (i *intercept) InterceptWorkflow(
	_ workflow.Context, next interceptor.WorkflowInboundInterceptor,
) interceptor.WorkflowInboundInterceptor {
	return &inbound{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next},
		world: i.world}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	world *World
}

func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{
		WorkflowOutboundInterceptorBase: interceptor.WorkflowOutboundInterceptorBase{Next: next}, world: i.world})
}

func (i *inbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	info := workflow.GetInfo(ctx)
	if info.WorkflowStartTime.IsZero() { // the test environment sets none for children
		info.WorkflowStartTime = workflow.Now(ctx)
	}
	id := info.WorkflowExecution.ID
	w := i.world
	r := w.workflows.runs[id]
	if r == nil && info.ParentWorkflowExecution != nil { // a transition
		r = &run{
			kind: info.WorkflowType.Name, attributes: map[string]string{}, began: workflow.Now(ctx),
			input: in.Args[0], parent: info.ParentWorkflowExecution.ID,
		}
		w.workflows.runs[id] = r
		switch t := in.Args[0].(type) {
		case contract.TransitionInput:
			r.deadline = t.Deadline
		case contract.ReplicateInput:
			r.deadline = t.Deadline
		}
		if r.deadline.IsZero() && r.kind != contract.WorkflowDrain { // a drain waits as long as it is wanted
			w.breakf("transition %s has no deadline", id)
		}
		w.tracef("%s: began", id)
	}
	if r == nil {
		return i.Next.ExecuteWorkflow(ctx, in)
	}
	r.open, r.updates = true, map[string]*update{}
	out, err := i.Next.ExecuteWorkflow(ctx, in)
	r.open = false
	if workflow.IsContinueAsNewError(err) {
		w.continued++
		closeDoneChannel(w.workflows.environment(id))
	}
	if isTransition(r.kind) {
		w.tracef("%s: ended: %v", id, err)
		var app *temporal.ApplicationError
		if err != nil && !temporal.IsCanceledError(err) && !errors.As(err, &app) && !w.ending {
			w.breakf("transition %s failed with an error that is not for users: %v", id, err)
		}
		delete(w.workflows.runs, id)
	}
	return out, err
}

// ValidateUpdate receives an Update.
func (i *inbound) ValidateUpdate(ctx workflow.Context, in *interceptor.UpdateInput) error {
	if r := i.world.workflows.runs[workflow.GetInfo(ctx).WorkflowExecution.ID]; r != nil {
		if u := r.updates[workflow.GetCurrentUpdateInfo(ctx).ID]; u != nil {
			u.seen = true
		}
	}
	return i.Next.ValidateUpdate(ctx, in)
}

// ExecuteUpdate adds to the history's length.
func (i *inbound) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	i.world.age(workflow.GetInfo(ctx))
	return i.Next.ExecuteUpdate(ctx, in)
}

func isTransition(kind string) bool { return !slices.Contains(entityKinds(), kind) }

func (i *inbound) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	info := workflow.GetInfo(ctx)
	id := info.WorkflowExecution.ID
	if r := i.world.workflows.runs[id]; r != nil && r.open {
		i.world.workflows.taken[id+" "+in.SignalName]++
		i.world.age(info)
	}
	return i.Next.HandleSignal(ctx, in)
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	world *World
}

// GetInfo returns the parent of a transition, also where the test has started it again.
func (o *outbound) GetInfo(ctx workflow.Context) *workflow.Info {
	info := o.Next.GetInfo(ctx)
	if r := o.world.workflows.runs[info.WorkflowExecution.ID]; r != nil && r.parent != "" &&
		info.ParentWorkflowExecution.ID != r.parent {
		copied := *info
		copied.ParentWorkflowExecution = &workflow.Execution{ID: r.parent}
		return &copied
	}
	return info
}

// GetCurrentUpdateInfo returns the ID that the user gave.
func (o *outbound) GetCurrentUpdateInfo(ctx workflow.Context) *workflow.UpdateInfo {
	u := o.Next.GetCurrentUpdateInfo(ctx)
	id, _, _ := strings.Cut(u.ID, "#")
	return &workflow.UpdateInfo{ID: id, Name: u.Name}
}

func (o *outbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	return o.world.activities.regular(ctx, name, args)
}

func (o *outbound) ExecuteLocalActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	return o.world.activities.local(ctx, name, args)
}

// mostTries bounds the wait for a workflow that is between two runs.
const mostTries = 100

// SignalExternalWorkflow waits for a workflow that is between two runs, as Temporal does: the test environment has no
// workflow then that would receive the signal.
func (o *outbound) SignalExternalWorkflow(ctx workflow.Context, id, run, signal string, arg any) workflow.Future {
	if wait, again := o.world.delivery.repeatOf(signal); again {
		o.world.after(wait, func() {
			if !o.world.workflows.isClosed(id) {
				o.world.send(&delivery.Delivery{Workflow: id, Signal: signal, Payload: arg})
			}
		})
	}
	between := func() bool { r := o.world.workflows.runs[id]; return r != nil && !r.open }
	if !between() {
		return o.Next.SignalExternalWorkflow(ctx, id, run, signal, arg)
	}
	future, result := workflow.NewFuture(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for tries := 0; between() && tries < mostTries; tries++ {
			if err := workflow.Sleep(ctx, 3*time.Millisecond); err != nil {
				result.SetError(err)
				return
			}
		}
		if between() { // it has ended, which the world has not processed yet
			result.SetError(&temporal.UnknownExternalWorkflowExecutionError{})
			return
		}
		result.SetError(o.Next.SignalExternalWorkflow(ctx, id, run, signal, arg).Get(ctx, nil))
	})
	return future
}

// SignalWorkflow lets an activity signal another workflow.
func (w *World) SignalWorkflow(_ context.Context, id, _, signal string, payload any) error {
	if w.workflows.isClosed(id) {
		return serviceerror.NewNotFound("workflow execution already completed")
	}
	w.send(&delivery.Delivery{Workflow: id, Signal: signal, Payload: payload})
	return nil
}

func (o *outbound) UpsertTypedSearchAttributes(ctx workflow.Context, updates ...temporal.SearchAttributeUpdate) error {
	r := o.world.workflows.runs[workflow.GetInfo(ctx).WorkflowExecution.ID]
	if r != nil {
		attributes := map[string]string{}
		for k, v := range r.attributes {
			attributes[k] = v
		}
		//workflowcheck:ignore copies a map
		for k, v := range temporal.NewSearchAttributes(updates...).GetUntypedValues() {
			if s, ok := v.(string); ok && s != "" {
				attributes[k.GetName()] = s
			} else {
				delete(attributes, k.GetName())
			}
		}
		r.attributes = attributes
	}
	return nil
}
