package entity_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

func TestDecisionBecomesPlan(t *testing.T) {
	var did entity.Decision
	do := func(_ workflow.Context, d entity.Decision) error { did = d; return nil }
	news := waits.For(waits.NextObservation)
	open := entity.Decision{Action: entity.ActOpen, Operation: contract.OperationStart, Why: "it is wanted"}
	p := open.Plan(&entity.Failure{Message: "quota"}, do)
	require.Equal(t, "open a transition: start", p.Step.Name)
	require.Equal(t, "it is wanted", p.Step.Why)
	require.Equal(t, "quota", p.Trouble)
	require.NoError(t, p.Step.Do(nil))
	require.Equal(t, open, did)
	require.Equal(t, entity.Plan{Finish: true}, entity.Decision{Action: entity.ActFinish}.Plan(nil, do))
	require.Equal(t, entity.Plan{Waiting: news}, entity.Decision{}.Or(news).Plan(nil, do))
	require.Empty(t, open.Or(news).Waiting, "there is something to do")
}

func TestByKeepsEarlierTime(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.Equal(t, at, entity.Decision{}.WakeBy(at).WakeAt)
	require.Equal(t, at, entity.Decision{WakeAt: at}.WakeBy(at.Add(1)).WakeAt)
	require.Equal(t, at, entity.Decision{WakeAt: at}.WakeBy(time.Time{}).WakeAt)
	require.Zero(t, entity.Decision{Action: entity.ActWrite}.WakeBy(at).WakeAt)
}

// A failed step waits until its time; meanwhile the status shows the failure, unless writing it is what failed.
func TestHoldsFailedStepBack(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	status := func(time.Time) entity.Decision { return entity.Decision{Action: entity.ActWrite} }
	settled := func(time.Time) entity.Decision { return entity.Decision{} }
	open := entity.Decision{Action: entity.ActOpen, Operation: contract.OperationStart}
	f := (*entity.Failure)(nil).AfterFailure(now, "start", "FailedCreate", errors.New("quota"))
	wait := entity.Decision{WakeAt: now.Add(time.Second), Waiting: waits.For(waits.NextAttempt, "start", "quota")}
	require.Equal(t, entity.ActWrite, f.WithBackoff(open, now, status).Action)
	require.Equal(t, wait, f.WithBackoff(open, now, settled))
	require.Equal(t, wait, f.WithBackoff(open, now, nil))
	require.Equal(t, open, f.WithBackoff(open, f.RetryAt, status))
	require.Equal(t, open, (*entity.Failure)(nil).WithBackoff(open, now, status))
	stop := entity.Decision{Action: entity.ActOpen, Operation: contract.OperationStop}
	require.Equal(t, stop, f.WithBackoff(stop, now, status), "something else failed")
	f = f.AfterFailure(now, string(entity.ActWrite), "", errors.New("forbidden"))
	require.Equal(t, waits.For(waits.NextAttempt, "write the status", "forbidden"),
		f.WithBackoff(status(now), now, status).Waiting)
}

func TestSooner(t *testing.T) {
	var never time.Time
	now := time.Unix(1000, 0)
	later := now.Add(time.Second)
	require.Equal(t, now, entity.Sooner(now, later))
	require.Equal(t, now, entity.Sooner(later, now))
	require.Equal(t, now, entity.Sooner(never, now))
	require.Equal(t, now, entity.Sooner(now, never))
}
