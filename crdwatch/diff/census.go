package diff

import (
	"context"
	"fmt"
	"maps"
	"time"

	"go.temporal.io/api/workflowservice/v1"
)

const (
	// CensusInterval is the time between two counts of the running workflows. A difference is checked again after
	// confirmInterval, since Temporal's visibility lags. Together they are less than a minute.
	CensusInterval  = 45 * time.Second
	confirmInterval = 10 * time.Second
)

// census compares how many objects of each kind exist with how many workflows run for them. That costs one query each,
// which Temporal answers from an index, whatever the number of objects. A resync follows only if they differ.
type census struct {
	// missing has what the last count found: objects less workflows, by kind, without those that agree.
	missing map[string]int
	// remaining has what was missing at the last resync. What that resync did not repair waits for the next regular
	// one.
	remaining map[string]int
	// sameSign has how many counts in a row found workflows missing, or left over, by kind: above 0, or below.
	sameSign map[string]int
}

// mostAlike is how many counts in a row may find something missing without the same number twice: a lost workflow does
// not wait for the end of a time of load, in which visibility is never current.
const mostAlike = 3

// censusResult is the outcome of a comparison.
type censusResult int

const (
	censusAgrees censusResult = iota
	censusUnconfirmed
	censusDiffers
)

// compare takes what is missing now. Objects and workflows differ if the same number is missing twice in a row, or any
// number in several counts.
func (c *census) compare(missing map[string]int) censusResult {
	maps.DeleteFunc(missing, func(_ string, n int) bool { return n == 0 })
	before := c.missing
	c.missing = missing
	maps.DeleteFunc(c.remaining, func(kind string, n int) bool { return missing[kind] != n })
	alike := map[string]int{}
	for kind, n := range missing {
		if alike[kind] = 1; n < 0 {
			alike[kind] = -1
		}
		if c.sameSign[kind]*n > 0 {
			alike[kind] += c.sameSign[kind]
		}
	}
	c.sameSign = alike
	v := censusAgrees
	for kind, n := range missing {
		switch {
		case c.remaining[kind] == n:
		case before[kind] == n, alike[kind] >= mostAlike, alike[kind] <= -mostAlike:
			return censusDiffers
		default:
			v = censusUnconfirmed
		}
	}
	return v
}

// recordResync records that a resync has taken place.
func (c *census) recordResync() { c.remaining, c.sameSign = maps.Clone(c.missing), nil }

// countMissing counts what is missing.
func (r *Resyncer) countMissing(ctx context.Context) (map[string]int, error) {
	missing := map[string]int{}
	for _, e := range r.differ.entities.each() {
		workflow := e.workflowType()
		answer, err := r.Temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Query: fmt.Sprintf("ExecutionStatus = 'Running' AND WorkflowType = '%s'", workflow),
		})
		if err != nil {
			return nil, fmt.Errorf("counting the open workflows of type %s: %w", workflow, err)
		}
		missing[workflow] = e.missing(int(answer.GetCount()))
	}
	return missing, nil
}

// TakeCensus counts, and resyncs if the counts differ. It returns when to count next.
func (r *Resyncer) TakeCensus(ctx context.Context) (next time.Duration, err error) {
	missing, err := r.countMissing(ctx)
	if err != nil {
		return CensusInterval, err
	}
	switch r.census.compare(missing) {
	case censusUnconfirmed:
		return confirmInterval, nil
	case censusDiffers:
		r.log.Info().Interface("missing", r.census.missing).
			Msg("found a difference between the numbers of objects and workflows; resyncing")
		return CensusInterval, r.lookThrough(ctx, false)
	default:
		return CensusInterval, nil
	}
}
