package upgrade

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/time/rate"
	"k8s.io/client-go/util/flowcontrol"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/virtflow/virtflow/contract"
)

// listing is a Temporal with some workflows, of which every query holds.
type listing struct {
	client.Client
	ids       []string
	parents   map[string]string
	histories map[string][]*historypb.HistoryEvent
	refused   error
	mu        sync.Mutex // of what follows
	query     string
	did       []string
}

func (l *listing) ListWorkflow(
	_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	l.mu.Lock()
	l.query = r.GetQuery()
	l.mu.Unlock()
	out := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range l.ids {
		out.Executions = append(out.Executions, &workflowpb.WorkflowExecutionInfo{
			Execution:       &commonpb.WorkflowExecution{WorkflowId: id, RunId: "run of " + id},
			ParentExecution: &commonpb.WorkflowExecution{WorkflowId: l.parents[id]},
		})
	}
	return out, l.refused
}

func (l *listing) SignalWorkflow(_ context.Context, id, run, signal string, _ any) error {
	l.did = append(l.did, signal+" "+id+" "+run)
	if id == "closed" {
		return serviceerror.NewNotFound("workflow execution already completed")
	}
	return nil
}

func (l *listing) TerminateWorkflow(_ context.Context, id, run, _ string, _ ...any) error {
	l.did = append(l.did, "end "+id+" "+run)
	return nil
}

func (l *listing) GetWorkflowHistory(
	_ context.Context, id, _ string, _ bool, _ enumspb.HistoryEventFilterType,
) client.HistoryEventIterator {
	if events, ok := l.histories[id]; ok {
		return &iterator{events: events}
	}
	return &iterator{events: []*historypb.HistoryEvent{nil}}
}

type iterator struct{ events []*historypb.HistoryEvent }

func (i *iterator) HasNext() bool { return len(i.events) > 0 }

func (i *iterator) Next() (*historypb.HistoryEvent, error) {
	e := i.events[0]
	i.events = i.events[1:]
	if e == nil {
		return nil, serviceerror.NewUnavailable("no history")
	}
	return e, nil
}

func entities() []string { return []string{contract.WorkflowVM, contract.WorkflowVMI} }

func updaterOf(l *listing) (u *Updater, pass func(time.Duration)) {
	clock := testingclock.NewFakeClock(time.Unix(1e9, 0))
	u = New(l, entities(), zerolog.Nop())
	u.askLimiter, u.endLimiter, u.now = rate.NewLimiter(rate.Inf, 1), rate.NewLimiter(rate.Inf, 1), clock.Now
	u.backoff = flowcontrol.NewFakeBackOff(askedPause, askedPauseLongest, clock)
	return u, clock.Step
}

// taskFailed returns the event of a workflow task that failed for this cause.
func taskFailed(cause enumspb.WorkflowTaskFailedCause) *historypb.HistoryEvent {
	return &historypb.HistoryEvent{
		EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED,
		Attributes: &historypb.HistoryEvent_WorkflowTaskFailedEventAttributes{
			WorkflowTaskFailedEventAttributes: &historypb.WorkflowTaskFailedEventAttributes{Cause: cause},
		},
	}
}

// TestAsksEntitiesWithOtherLogicToContinueAsNew: their logic is of an earlier or a later release. While asking has no
// effect they are asked again, with a growing back-off.
func TestAsksEntitiesWithOtherLogicToContinueAsNew(t *testing.T) {
	l := &listing{ids: []string{"vm/a/web", "closed", "vmi/a/web"}}
	u, pass := updaterOf(l)
	const types = "IN ('VirtualMachine', 'VirtualMachineInstance') AND "
	require.NoError(t, u.continueAsNew(t.Context(), nil))
	require.True(t, strings.HasSuffix(l.query,
		types+"TemporalChangeVersion IS NOT NULL AND TemporalChangeVersion != 'logic:none-1'"), l.query)
	require.Equal(t, []string{
		"continue-as-new vm/a/web run of vm/a/web", "continue-as-new closed run of closed",
		"continue-as-new vmi/a/web run of vmi/a/web",
	}, l.did)
	times := 0
	for range 64 {
		l.did = nil
		require.NoError(t, u.continueAsNew(t.Context(), []string{"old", "newest"}))
		if len(l.did) > 0 {
			times++
		}
		pass(time.Minute)
	}
	require.True(t, strings.HasSuffix(l.query,
		types+"(TemporalChangeVersion IS NULL OR TemporalChangeVersion != 'logic:newest-1')"), l.query)
	require.Equal(t, 6, times, "1, 2, 4, 8, 16 and 32 minutes later")
}

// TestTerminatesUnreplayableWorkflows: only workflows whose last task failed for that reason, and still does later, not
// those that fail for a bug or a busy worker. The entity of a transition is signalled.
func TestTerminatesUnreplayableWorkflows(t *testing.T) {
	completed := &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED}
	diverged := taskFailed(enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR)
	panicked := taskFailed(enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE)
	l := &listing{
		ids:     []string{"unreadable", "entity", "transition", "healed", "panics", "times out"},
		parents: map[string]string{"transition": "its entity"},
		histories: map[string][]*historypb.HistoryEvent{
			"entity":     {completed, diverged},
			"transition": {diverged},
			"healed":     {diverged, completed},
			"panics":     {completed, panicked},
			"times out":  {completed},
		},
	}
	u, pass := updaterOf(l)
	require.Error(t, u.terminateUnreplayable(t.Context()), "one that cannot be read")
	require.Empty(t, l.did)
	pass(divergedFor)
	require.Error(t, u.terminateUnreplayable(t.Context()))
	require.Equal(t, []string{
		"end entity run of entity", "end transition run of transition", "transition-closed its entity ",
	}, l.did)

	l.did, l.refused = nil, serviceerror.NewInvalidArgument("invalid search attribute: TemporalReportedProblems")
	require.NoError(t, u.terminateUnreplayable(t.Context()), "an older Temporal")
	require.Empty(t, l.did)
	l.refused = serviceerror.NewUnavailable("no")
	require.Error(t, u.terminateUnreplayable(t.Context()))
}

// TestKeepsWorkflowThatReplaysAgain: the time counts from the last failure.
func TestKeepsWorkflowThatReplaysAgain(t *testing.T) {
	l := &listing{ids: []string{"a"}, histories: map[string][]*historypb.HistoryEvent{
		"a": {taskFailed(enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR)}}}
	u, pass := updaterOf(l)
	look := func(ids ...string) {
		l.ids = ids
		require.NoError(t, u.terminateUnreplayable(t.Context()))
		pass(divergedFor - time.Second)
	}
	look("a")
	look() // a worker that can replay it had it
	look("a")
	require.Empty(t, l.did)
	look("a")
	look("a")
	require.NotEmpty(t, l.did)

	u, pass = updaterOf(l)
	l.did = nil
	look("a")
	l.ids, l.refused = nil, serviceerror.NewUnavailable("no")
	require.Error(t, u.terminateUnreplayable(t.Context()))
	l.refused = nil
	pass(time.Second)
	look("a")
	require.NotEmpty(t, l.did, "it was known, though one look failed before it came to that")

	u, pass = updaterOf(l)
	l.did = nil
	lookToo := func(ids ...string) {
		l.ids = append([]string{"unreadable"}, ids...)
		require.Error(t, u.terminateUnreplayable(t.Context()))
		pass(divergedFor - time.Second)
	}
	lookToo("a")
	lookToo() // a worker that can replay it had it
	lookToo("a")
	require.Empty(t, l.did, "that another cannot be read says nothing of it")
	a := l.histories["a"]
	l.histories["a"] = []*historypb.HistoryEvent{nil}
	lookToo("a")
	l.histories["a"] = a
	lookToo("a")
	require.NotEmpty(t, l.did, "it was known, though one look could not read it")
}

// asking takes a long time for each entity that is asked to continue as new, as for the thousands of a large cluster.
type asking struct{ *listing }

func (a *asking) SignalWorkflow(ctx context.Context, _, _, _ string, _ any) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestAskingDoesNotDelayTerminating: most workflows that are asked may be unreplayable.
func TestAskingDoesNotDelayTerminating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listing{ids: []string{"a"}, histories: map[string][]*historypb.HistoryEvent{
			"a": {taskFailed(enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR)}}}
		ctx, cancel := context.WithCancel(t.Context())
		u := New(&asking{l}, entities(), zerolog.Nop())
		go u.Run(ctx)
		time.Sleep(2*interval + divergedFor)
		cancel()
		synctest.Wait()
		require.Contains(t, l.did, "end a run of a")
	})
}
