//go:build crash

package crash

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
)

// follower reads the histories of one scenario as they grow: of the given entities, of their children, and of the runs
// that continue them.
type follower struct {
	temporal client.Client
	ctx      context.Context
	// counted is called for each counted event, with its number, from one.
	counted func(int)

	mu     sync.Mutex
	armed  bool
	count  int
	open   map[string]string // workflow ID of runs that are open, by run
	closed []string          // workflow ID and how it ended
	again  []string          // workflow IDs of runs that continued as new
	marks  []mark            // of the events that were counted
	each   map[string]int    // number of events of each workflow
	trace  []string
	last   time.Time
}

func follow(ctx context.Context, c client.Client, counted func(int)) *follower {
	return &follower{temporal: c, ctx: ctx, counted: counted, open: map[string]string{}, each: map[string]int{},
		last: time.Now()}
}

// entity follows every run of a workflow ID, one after the other. Between runs it polls for the next one, often at
// first and after each nudge.
func (f *follower) entity(id string, nudge <-chan struct{}) {
	const soon, seldom = 10 * time.Millisecond, 500 * time.Millisecond
	last := ""
	for wait := soon; f.ctx.Err() == nil; wait = min(wait*5/4, seldom) {
		d, err := f.temporal.DescribeWorkflowExecution(f.ctx, id, "")
		info := d.GetWorkflowExecutionInfo()
		if err == nil && info.GetExecution().GetRunId() != last {
			// The present run may continue one that lived between two polls.
			last = f.run(id, info.GetFirstRunId())
			wait = soon
		}
		select {
		case <-f.ctx.Done():
		case <-nudge:
			wait = soon
		case <-time.After(wait):
		}
	}
}

// run follows one run and those that continue it to the end, and returns the last one.
func (f *follower) run(id, run string) string {
	for f.ctx.Err() == nil {
		f.mu.Lock()
		f.open[run] = id
		f.mu.Unlock()
		next := ""
		for seen, ended := int64(0), false; !ended && f.ctx.Err() == nil; {
			if next, ended = f.read(id, run, &seen); !ended {
				time.Sleep(10 * time.Millisecond) // the server has refused load, or the connection broke
			}
		}
		if next == "" {
			return run
		}
		run = next
	}
	return run
}

// read reads the events of a run after the number seen. It returns the run that continues this one, and whether this
// one has ended; if not, reading failed.
func (f *follower) read(id, run string, seen *int64) (next string, ended bool) {
	events := f.temporal.GetWorkflowHistory(f.ctx, id, run, true, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return "", false
		}
		if e.GetEventId() <= *seen {
			continue
		}
		*seen = e.GetEventId()
		next = f.event(id, run, e)
		if _, ended = ending(e); ended {
			return next, true
		}
	}
	return "", false
}

// event counts an event, and returns the run that continues this one.
func (f *follower) event(id, run string, e *history.HistoryEvent) string {
	f.mu.Lock()
	if f.armed {
		f.count++
		f.marks = append(f.marks, mark{run, e.GetTaskId()})
		f.each[id]++
	}
	f.last = time.Now()
	f.trace = append(f.trace,
		fmt.Sprintf("%4d %s %s %d %s", f.count, f.last.Format("05.000"), id, e.GetEventId(), detail(e)))
	number, counts := f.count, f.armed
	next := ""
	if a := e.GetChildWorkflowExecutionStartedEventAttributes(); a != nil {
		child := a.GetWorkflowExecution()
		f.open[child.GetRunId()] = child.GetWorkflowId()
		go f.run(child.GetWorkflowId(), child.GetRunId())
	}
	if how, ok := ending(e); ok {
		delete(f.open, run)
		next = e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
		if next == "" {
			f.closed = append(f.closed, id+" "+how)
		} else {
			f.open[next] = id
			f.again = append(f.again, id)
		}
	}
	f.mu.Unlock()
	if counts {
		f.counted(number)
	}
	return next
}

// ending returns how an event ends a run, and whether it does.
func ending(e *history.HistoryEvent) (string, bool) {
	switch e.GetEventType() {
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, enums.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
		enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		return strings.TrimPrefix(e.GetEventType().String(), "WorkflowExecution"), true
	default:
		return "", false
	}
}

// mark is the position of an event: Temporal numbers the events of one transaction without a gap.
type mark struct {
	run string
	id  int64
}

// moments returns the counts at which a transaction was complete. Events of one transaction become visible at once, so
// a kill between them is impossible.
func (f *follower) moments() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []int
	for i, m := range f.marks {
		if !slices.Contains(f.marks[i+1:], mark{m.run, m.id + 1}) {
			out = append(out, i+1)
		}
	}
	return out
}

// arm starts counting.
func (f *follower) arm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
}

// total returns the number of counted events.
func (f *follower) total() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// counts returns the number of counted events, by workflow.
func (f *follower) counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.each)
}

// transitions returns the open ones, and how the others ended, without their objects' names.
func (f *follower) transitions() (open, closed []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.open {
		if strings.Count(id, "/") > 2 {
			open = append(open, id)
		}
	}
	for _, s := range f.closed {
		parts := strings.Split(s, "/")
		if drain := "node/" + nodeName + "/"; strings.HasPrefix(s, drain) && len(parts) > 3 {
			_, how, _ := strings.Cut(parts[3], " ")
			closed = append(closed, parts[2]+" "+how) // without its number
		} else if len(parts) > 3 {
			closed = append(closed, strings.Join(parts[len(parts)-2:], "/"))
		}
	}
	slices.Sort(open)
	slices.Sort(closed)
	return open, closed
}

// continued fails while one of the entities has not continued as new.
func (f *follower) continued(ids []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if !slices.Contains(f.again, id) {
			return fmt.Errorf("%s has not continued as new", id)
		}
	}
	return nil
}

// entities fails while one of the entities is open.
func (f *follower) entities() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.open) > 0 {
		return fmt.Errorf("open: %v", f.open)
	}
	for _, s := range f.closed {
		if strings.Count(s, "/") <= 2 && !strings.HasSuffix(s, " Completed") {
			return fmt.Errorf("ended otherwise: %s", s)
		}
	}
	return nil
}

// detail describes an event, for a person who examines a failure.
func detail(e *history.HistoryEvent) string {
	out := e.GetEventType().String()
	switch {
	case e.GetWorkflowExecutionSignaledEventAttributes() != nil:
		out += " " + e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName()
	case e.GetActivityTaskScheduledEventAttributes() != nil:
		out += " " + e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()
	case e.GetWorkflowTaskFailedEventAttributes() != nil:
		out += " " + e.GetWorkflowTaskFailedEventAttributes().GetFailure().GetMessage()
	case e.GetWorkflowExecutionFailedEventAttributes() != nil:
		out += " " + e.GetWorkflowExecutionFailedEventAttributes().GetFailure().GetMessage()
	case e.GetMarkerRecordedEventAttributes() != nil:
		out += " " + e.GetMarkerRecordedEventAttributes().GetMarkerName()
	}
	return out
}

// tail returns the last events, and what the open runs wait for.
func (f *follower) tail(n int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := slices.Clone(f.trace[max(0, len(f.trace)-n):])
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for run, id := range f.open {
		d, err := f.temporal.DescribeWorkflowExecution(ctx, id, run)
		lines = append(lines, fmt.Sprintf("%s: task %v, activities %v, %v", id, d.GetPendingWorkflowTask(),
			d.GetPendingActivities(), err))
	}
	return strings.Join(lines, "\n")
}
