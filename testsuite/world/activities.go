package world

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
)

// How long the parts of an attempt take. They differ, so that two attempts that begin together do not end together.
const (
	toStart  = 5 * time.Millisecond
	toEffect = 11 * time.Millisecond
	toAnswer = 7 * time.Millisecond
)

// activities is the registry that the worker's own registration fills, and the engine that runs attempts. An attempt
// runs inside the workflow that called the activity, in virtual time, one step at a time, so the same story always
// gives the same order of events.
type activities struct {
	world     *World
	functions map[string]reflect.Value
	// logical numbers the calls of each activity. A call that is retried as a regular activity keeps its number.
	logical map[string]int
	failed  map[string]failedCall // by workflow
	// invocations are the logical calls in order, as a run without fault lists them.
	invocations []Invocation
}

// Invocation is one logical call of an activity.
type Invocation struct {
	Activity string
	Ordinal  int      // the n-th of that activity in the story, from 1
	Running  []string // the types of the workflows that ran
}

type failedCall struct {
	activity string
	input    string
	ordinal  int
}

func newActivities(w *World) *activities {
	return &activities{world: w, functions: map[string]reflect.Value{}, logical: map[string]int{},
		failed: map[string]failedCall{}}
}

// RegisterActivity is part of worker.ActivityRegistry; activities here have names.
func (a *activities) RegisterActivity(any) { panic("register it with a name") }

// RegisterDynamicActivity is part of worker.ActivityRegistry.
func (a *activities) RegisterDynamicActivity(any, activity.DynamicRegisterOptions) {
	panic("there are no dynamic activities")
}

// RegisterActivityWithOptions takes an activity under its name.
func (a *activities) RegisterActivityWithOptions(f any, o activity.RegisterOptions) {
	a.functions[o.Name] = reflect.ValueOf(f)
}

// call is one activity call of a workflow.
type call struct {
	name            string
	ordinal         int
	input           reflect.Value
	text            string // the input as JSON
	request         string // the ID of the Update that it serves; "": none
	queue           string
	startToClose    time.Duration
	scheduleToStart time.Duration
	// heartbeat is the time after which a worker without heartbeats counts as dead; 0: startToClose is that time.
	heartbeat time.Duration
	expires   time.Time
	retry     temporal.RetryPolicy
}

// local runs a local activity.
func (a *activities) local(ctx workflow.Context, name string, args []any) workflow.Future {
	o := workflow.GetLocalActivityOptions(ctx)
	c := a.newCall(ctx, name, args, true)
	c.startToClose = o.StartToCloseTimeout
	c.setRetry(ctx, o.RetryPolicy, o.ScheduleToCloseTimeout)
	return a.run(ctx, c, true)
}

// regular runs an activity of a task queue.
func (a *activities) regular(ctx workflow.Context, name string, args []any) workflow.Future {
	o := workflow.GetActivityOptions(ctx)
	c := a.newCall(ctx, name, args, false)
	if name == contract.ActivityOperateDomain && isUpdateRequest(args) {
		c.request = workflow.GetCurrentUpdateInfo(ctx).ID
	}
	c.queue, c.startToClose, c.scheduleToStart = o.TaskQueue, o.StartToCloseTimeout, o.ScheduleToStartTimeout
	c.heartbeat = o.HeartbeatTimeout
	c.setRetry(ctx, o.RetryPolicy, o.ScheduleToCloseTimeout)
	return a.run(ctx, c, false)
}

// isUpdateRequest reports whether an operation belongs to an Update rather than to the entity itself.
func isUpdateRequest(args []any) bool {
	in, ok := args[0].(contract.OperateDomainInput)
	return ok && slices.Contains(contract.InstanceOperations(), in.Operation)
}

func (c *call) setRetry(ctx workflow.Context, retry *temporal.RetryPolicy, total time.Duration) {
	if total > 0 {
		c.expires = workflow.Now(ctx).Add(total)
	}
	if retry != nil {
		c.retry = *retry
	}
	if c.retry.InitialInterval == 0 {
		c.retry.InitialInterval = time.Second
	}
	if c.retry.BackoffCoefficient == 0 {
		c.retry.BackoffCoefficient = 2
	}
	if c.retry.MaximumInterval == 0 {
		c.retry.MaximumInterval = 100 * c.retry.InitialInterval
	}
}

// newCall numbers a call and copies its input as a payload would.
func (a *activities) newCall(ctx workflow.Context, name string, args []any, local bool) *call {
	f, ok := a.functions[name]
	if !ok {
		panic("no activity is registered as " + name)
	}
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	var in reflect.Value
	text := ""
	if len(args) > 0 {
		payloads, err := converter.GetDefaultDataConverter().ToPayloads(args...)
		if err != nil {
			panic(fmt.Sprintf("encoding the input of %s: %v", name, err))
		}
		in = reflect.New(f.Type().In(1))
		if err := converter.GetDefaultDataConverter().FromPayloads(payloads, in.Interface()); err != nil {
			panic(fmt.Sprintf("decoding the input of %s: %v", name, err))
		}
		in = in.Elem()
		text = string(payloads.GetPayloads()[0].GetData())
	}
	before, again := a.failed[id]
	delete(a.failed, id)
	ordinal := before.ordinal
	if local || !again || before.activity != name || before.input != text {
		a.logical[name]++
		ordinal = a.logical[name]
		if !a.world.healed { // no fault strikes the cleanup after the story
			a.invocations = append(a.invocations,
				Invocation{Activity: name, Ordinal: ordinal, Running: a.world.workflows.kinds()})
			if f := a.world.fault; f != nil && f.Mode == HistoryBack && a.world.faultHit == 0 {
				a.world.after(0, func() { a.world.copies = append(a.world.copies, a.world.workflows.backup()) })
			}
		}
	}
	a.world.tracef("%s: %s#%d %s", id, name, ordinal, short(text))
	return &call{name: name, ordinal: ordinal, input: in, text: text}
}

// run makes attempts until one succeeds or the retry policy ends them. A workflow that cancels does not wait; an
// attempt under way continues.
func (a *activities) run(ctx workflow.Context, c *call, local bool) workflow.Future {
	future, result := workflow.NewFuture(ctx)
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	detached, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(detached, func(ctx2 workflow.Context) {
		r := &attempts{activities: a, call: c, asker: ctx, ctx: ctx2, result: result}
		value, err := r.runAll()
		if r.cancelled {
			return
		}
		if err != nil {
			a.world.tracef("%s: %s#%d failed: %s", id, c.name, c.ordinal, short(err.Error()))
			if local {
				a.failed[id] = failedCall{c.name, c.text, c.ordinal}
			}
		}
		result.Set(value, err)
	})
	return future
}

// attempts are the attempts of one call.
type attempts struct {
	*activities
	*call
	asker, ctx workflow.Context
	result     workflow.Settable
	cancelled  bool
	number     int       // of the current attempt, from 1
	limit      time.Time // of the current attempt
}

// pause lets virtual time pass. A cancellation during that time is answered at once.
func (r *attempts) pause(d time.Duration) {
	timer := workflow.NewTimer(r.ctx, r.world.distinct(d))
	over := false
	for !over {
		s := workflow.NewSelector(r.ctx)
		s.AddFuture(timer, func(workflow.Future) { over = true })
		if !r.cancelled {
			s.AddReceive(r.asker.Done(), func(workflow.ReceiveChannel, bool) {
				r.cancelled = true
				r.result.SetError(temporal.NewCanceledError())
			})
		}
		s.Select(r.ctx)
	}
}

func (r *attempts) now() time.Time { return workflow.Now(r.ctx) }

func (r *attempts) runAll() (any, error) {
	var last error
	for attempt := 1; ; attempt++ {
		if !r.waitForPoller() {
			return nil, timedOut(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, last)
		}
		value, err := r.runOne(attempt)
		if err == nil || r.cancelled {
			return value, err
		}
		last = err
		wait := r.backoff(attempt, err)
		if wait <= 0 {
			return nil, err
		}
		r.pause(wait)
		if r.cancelled {
			return nil, err
		}
	}
}

// waitForPoller waits until a worker polls the call's queue, at most for the schedule-to-start timeout, and reports
// whether one does.
func (r *attempts) waitForPoller() bool {
	node, ok := strings.CutPrefix(r.queue, contract.NodeTaskQueue(""))
	if !ok {
		return true
	}
	until := r.now().Add(r.scheduleToStart)
	for !r.world.isWorkerPolling(node) {
		if !r.now().Before(until) || r.cancelled {
			return false
		}
		r.pause(time.Second)
	}
	return true
}

// runOne runs one attempt: it starts, has its effect, and answers, unless the fault of this world decides otherwise.
func (r *attempts) runOne(attempt int) (any, error) {
	r.number = attempt
	begun := r.now()
	limit := begun.Add(r.startToClose)
	if !r.expires.IsZero() && r.expires.Before(limit) {
		limit = r.expires
	}
	r.limit = limit
	lost := func() error {
		kind := enumspb.TIMEOUT_TYPE_START_TO_CLOSE
		if silent := r.now().Add(r.heartbeat); r.heartbeat > 0 && silent.Before(limit) {
			limit, kind = silent, enumspb.TIMEOUT_TYPE_HEARTBEAT
		}
		r.pause(max(limit.Sub(r.now()), time.Millisecond))
		return timedOut(kind, nil)
	}
	process := r.world.process(r.queue)
	r.pause(toStart + toEffect)
	if process.hasDied() {
		return nil, lost()
	}
	v := r.world.judge(r.name, r.ordinal, attempt)
	var value any
	err := v.err
	if v.effect {
		done, failure := r.perform()
		if errors.Is(failure, errDied) {
			return nil, lost()
		}
		if err == nil {
			value, err = done, failure
		}
		r.world.strike(r.name, r.ordinal)
	}
	if v.late {
		return nil, lost()
	}
	r.pause(toAnswer)
	if process.hasDied() {
		return nil, lost()
	}
	return value, err
}

// perform calls the activity. Its result is encoded and decoded as Temporal would.
func (r *attempts) perform() (any, error) {
	if h := r.world.hosts[strings.TrimPrefix(r.queue, contract.NodeTaskQueue(""))]; h != nil && r.input.IsValid() {
		if out, ok, err := r.migration(h); ok {
			return out, err
		}
	}
	switch r.name {
	case contract.ActivityStartDomain:
		return r.startDomain()
	case contract.ActivityOperateDomain:
		return r.operateDomain()
	case contract.ActivityReportNode:
		return contract.ReportNodeResult{
			Report: r.world.hosts[strings.TrimPrefix(r.queue, contract.NodeTaskQueue(""))].report()}, nil
	}
	in := []reflect.Value{reflect.ValueOf(context.Background())}
	if r.input.IsValid() {
		in = append(in, r.input)
	}
	out := r.functions[r.name].Call(in)
	if err, ok := out[len(out)-1].Interface().(error); ok && err != nil {
		fc := temporal.GetDefaultFailureConverter()
		return nil, fc.FailureToError(fc.ErrorToFailure(err))
	}
	if len(out) == 1 { // it has no result
		return nil, nil
	}
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(out[0].Interface())
	if err != nil {
		return nil, fmt.Errorf("encoding the answer of %s: %w", r.name, err)
	}
	copied := reflect.New(out[0].Type())
	if err := converter.GetDefaultDataConverter().FromPayloads(payloads, copied.Interface()); err != nil {
		return nil, fmt.Errorf("decoding the answer of %s: %w", r.name, err)
	}
	return copied.Elem().Interface(), nil
}

// backoff returns the time before the next attempt; zero: there is none.
func (r *attempts) backoff(attempt int, err error) time.Duration {
	p := r.retry
	if p.MaximumAttempts > 0 && attempt >= int(p.MaximumAttempts) {
		return 0
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) && (app.NonRetryable() || slices.Contains(p.NonRetryableErrorTypes, app.Type())) {
		return 0
	}
	wait := time.Duration(float64(p.InitialInterval) * math.Pow(p.BackoffCoefficient, float64(attempt-1)))
	if wait <= 0 || wait > p.MaximumInterval {
		wait = p.MaximumInterval
	}
	if !r.expires.IsZero() && r.now().Add(wait).After(r.expires) {
		return 0
	}
	return wait
}

func short(s string) string {
	if len(s) > 400 {
		return s[:400] + "…"
	}
	return s
}
