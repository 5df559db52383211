package crdwatch

import (
	"context"
	"fmt"
	"maps"
	"time"

	"go.temporal.io/api/workflowservice/v1"
)

const (
	// LookInterval lies between two looks at how many workflows run; what a look finds is looked at again after
	// confirmInterval, since Temporal's visibility lags. Together they are less than a minute.
	LookInterval    = 45 * time.Second
	confirmInterval = 10 * time.Second
)

// census compares how many objects of each kind there are with how many workflows run for them. That costs one query
// each that Temporal answers from an index, whatever the number of objects; looking through everything is for when they
// differ.
type census struct {
	// missing is what the last look found: objects less workflows, by kind, without those that agree.
	missing map[string]int
	// remaining is what was missing when everything was looked through last: what that did not mend waits for its
	// interval.
	remaining map[string]int
	// alike is how many looks in a row found something missing, or something left over, by kind: above 0, or below.
	alike map[string]int
}

// tooOften is how many looks in a row may find something missing, never the same number: a workflow that was lost does
// not wait for the end of a busy time, in which visibility is never current.
const tooOften = 3

// verdict is what follows from a look.
type verdict int

const (
	agree verdict = iota
	confirm
	lookThrough
)

// look takes what is missing now. The same number twice in a row counts, and so does something each time.
func (c *census) look(missing map[string]int) verdict {
	maps.DeleteFunc(missing, func(_ string, n int) bool { return n == 0 })
	before := c.missing
	c.missing = missing
	maps.DeleteFunc(c.remaining, func(kind string, n int) bool { return missing[kind] != n })
	alike := map[string]int{}
	for kind, n := range missing {
		if alike[kind] = 1; n < 0 {
			alike[kind] = -1
		}
		if c.alike[kind]*n > 0 {
			alike[kind] += c.alike[kind]
		}
	}
	c.alike = alike
	v := agree
	for kind, n := range missing {
		switch {
		case c.remaining[kind] == n:
		case before[kind] == n, alike[kind] >= tooOften, alike[kind] <= -tooOften:
			return lookThrough
		default:
			v = confirm
		}
	}
	return v
}

// lookedThrough says that everything was looked through.
func (c *census) lookedThrough() { c.remaining, c.alike = maps.Clone(c.missing), nil }

// count counts what is missing.
func (r *resyncer) count(ctx context.Context) (map[string]int, error) {
	missing := map[string]int{}
	for _, e := range r.differ.entities.each() {
		workflow := e.workflowType()
		answer, err := r.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Query: fmt.Sprintf("ExecutionStatus = 'Running' AND WorkflowType = '%s'", workflow),
		})
		if err != nil {
			return nil, fmt.Errorf("counting the open workflows of type %s: %w", workflow, err)
		}
		missing[workflow] = e.missing(int(answer.GetCount()))
	}
	return missing, nil
}

// look counts, and looks through everything where that is called for. It returns when to look next.
func (r *resyncer) look(ctx context.Context) (next time.Duration, err error) {
	missing, err := r.count(ctx)
	if err != nil {
		return LookInterval, err
	}
	switch r.census.look(missing) {
	case confirm:
		return confirmInterval, nil
	case lookThrough:
		r.log.Info().Interface("missing", r.census.missing).
			Msg("not as many workflows run as there are objects: looking through everything")
		return LookInterval, r.once(ctx, false)
	default:
		return LookInterval, nil
	}
}

func (e *entity[T, O]) workflowType() string { return e.workflow }

// missing is how many objects have no workflow, when that many workflows run; less than 0: how many workflows have no
// object.
func (e *entity[T, O]) missing(running int) int {
	if e.closed == nil {
		return len(e.informer.GetStore().ListKeys()) - running
	}
	objects := 0
	for _, o := range list[T](e.informer) {
		if e.open(o) {
			objects++
		}
	}
	return objects - running
}
