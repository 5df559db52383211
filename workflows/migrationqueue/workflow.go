package migrationqueue

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// queue binds the state to one run of the workflow.
type queue struct {
	state State
	loop  *entity.Loop
	// now is the time of the last plan.
	now time.Time
}

// Workflow runs the queue of migrations. It never ends.
func Workflow(ctx workflow.Context, in contract.EntityInput) error {
	q := &queue{}
	s := &q.state
	if len(in.Carried) == 0 {
		s.listen(workflow.Now(ctx))
	} else if err := entity.Decode(in.Carried, s); err != nil {
		return err
	}
	q.loop = entity.NewLoop(ctx, q)
	s.Logic = q.loop.Logic()
	entity.OnSignal(q.loop, contract.SignalRequestAdmission, func(r contract.AdmissionRequest) {
		s.request(r, workflow.Now(ctx))
	})
	entity.OnSignal(q.loop, contract.SignalObserveMigration, func(o contract.QueuedMigration) {
		s.observe(o, workflow.Now(ctx))
	})
	if err := q.loop.OnControls(&s.Manual, q.controls()...); err != nil {
		return err
	}
	return q.loop.Run(contract.WorkflowAdmission, func(carried []byte) any {
		return contract.EntityInput{Name: in.Name, Carried: carried}
	})
}

// State returns the state, for the query.
func (q *queue) State() any { return q.state }

// Busy reports whether a step is open: never, since each ends before the next is planned.
func (q *queue) Busy() bool { return false }

// Refresh ends the listening when its time is over.
func (q *queue) Refresh(now time.Time) { q.state.refresh(now) }

// Plan binds the planner's decision to its step.
func (q *queue) Plan(now time.Time) entity.Plan {
	q.now = now
	return q.state.decide(now).Plan(q.state.Failure, q.act)
}

// mostShown bounds each list in the details.
const mostShown = 40

// Details returns what the Temporal UI shows first: which migrations run, and which wait, in order and why.
func (q *queue) Details(entity.Plan) string { return q.state.describe(q.now) }

func (s *State) describe(now time.Time) string {
	var running, unscheduled []Entry
	for i := range s.Entries {
		switch e := s.Entries[i]; {
		case e.isRunning():
			running = append(running, e)
		case e.Unscheduled:
			unscheduled = append(unscheduled, e)
		}
	}
	why := map[string]string{}
	for _, v := range s.assess(now) {
		why[v.uid] = v.why
	}
	var b strings.Builder
	line := waiting(s.Entries)
	fmt.Fprintf(&b, "**Migrations: %d run, %d wait**", len(running), len(line))
	if l := s.Limits; l != nil {
		fmt.Fprintf(&b, "\n\nAt most %d run at a time, and %d from one node.", l.Cluster, l.Outbound)
	}
	if closed := s.whyClosed(); closed != "" && (len(line) > 0 || s.Hold != nil) {
		fmt.Fprintf(&b, "\n\nNone begins: %s.", closed)
	}
	list(&b, "Running", running, func(e Entry) string {
		if !e.MissingSince.IsZero() {
			return "its workflow is not found"
		}
		if e.Admitted.IsZero() {
			return ""
		}
		return "since " + e.Admitted.UTC().Format(time.RFC3339)
	})
	list(&b, "Waiting, in this order", line, func(e Entry) string { return why[e.Migration.UID] })
	list(&b, "Not counted, as their targets' pods do not run", unscheduled, func(Entry) string { return "" })
	if s.Failure != nil {
		b.WriteString("\n\n" + s.Failure.Text(true))
	}
	return b.String()
}

// list writes a list of migrations, each with what about returns for it.
func list(b *strings.Builder, title string, entries []Entry, about func(Entry) string) {
	if len(entries) == 0 {
		return
	}
	fmt.Fprintf(b, "\n\n%s:\n", title)
	for i, e := range entries {
		if i == mostShown {
			fmt.Fprintf(b, "\nand %d more", len(entries)-i)
			return
		}
		fmt.Fprintf(b, "\n%d. %s/%s", i+1, e.Migration.Namespace, e.Migration.Name)
		if e.VMI != "" {
			fmt.Fprintf(b, " of %s", e.VMI)
		}
		if e.Node != "" {
			fmt.Fprintf(b, " from %s", e.Node)
		}
		if e.Priority != "" {
			fmt.Fprintf(b, " (%s)", e.Priority)
		}
		if a := about(e); a != "" {
			b.WriteString(": " + a)
		}
	}
}
