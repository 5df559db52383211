package entity_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

func TestADecisionBecomesAPlan(t *testing.T) {
	var did entity.Decision
	do := func(_ workflow.Context, d entity.Decision) error { did = d; return nil }
	open := entity.Decision{Action: entity.ActOpen, Operation: contract.OperationStart, Why: "it is wanted"}
	p := open.Plan(&entity.Failure{Message: "quota"}, do)
	require.Equal(t, "open a transition: start", p.Step.Name)
	require.Equal(t, "it is wanted", p.Step.Why)
	require.Equal(t, "quota", p.Trouble)
	require.NoError(t, p.Step.Do(nil))
	require.Equal(t, open, did)
	require.Equal(t, entity.Plan{Finish: true}, entity.Decision{Action: entity.ActFinish}.Plan(nil, do))
	require.Equal(t, entity.Plan{Waiting: "news"}, entity.Decision{}.Or("news").Plan(nil, do))
	require.Empty(t, open.Or("news").Waiting, "there is something to do")
}

func TestTheEarlierTimeCounts(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.Equal(t, at, entity.Decision{}.By(at).WakeAt)
	require.Equal(t, at, entity.Decision{WakeAt: at}.By(at.Add(1)).WakeAt)
	require.Equal(t, at, entity.Decision{WakeAt: at}.By(time.Time{}).WakeAt)
	require.Zero(t, entity.Decision{Action: entity.ActWrite}.By(at).WakeAt)
}

// TestWhatFailedIsHeldBack: it is not repeated before its time; meanwhile the status shows it, unless that is what
// failed.
func TestWhatFailedIsHeldBack(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	status := func(time.Time) entity.Decision { return entity.Decision{Action: entity.ActWrite} }
	settled := func(time.Time) entity.Decision { return entity.Decision{} }
	open := entity.Decision{Action: entity.ActOpen, Operation: contract.OperationStart}
	f := (*entity.Failure)(nil).Failed(now, "start", "FailedCreate", errors.New("quota"))
	wait := entity.Decision{WakeAt: now.Add(time.Second), Waiting: "another attempt to start: quota"}
	require.Equal(t, entity.ActWrite, f.HoldBack(open, now, status).Action)
	require.Equal(t, wait, f.HoldBack(open, now, settled))
	require.Equal(t, wait, f.HoldBack(open, now, nil))
	require.Equal(t, open, f.HoldBack(open, f.RetryAt, status))
	require.Equal(t, open, (*entity.Failure)(nil).HoldBack(open, now, status))
	stop := entity.Decision{Action: entity.ActOpen, Operation: contract.OperationStop}
	require.Equal(t, stop, f.HoldBack(stop, now, status), "something else failed")
	f = f.Failed(now, string(entity.ActWrite), "", errors.New("forbidden"))
	require.Equal(t, "another attempt to write the status: forbidden", f.HoldBack(status(now), now, status).Waiting)
}

func TestTheSoonerOfTwoTimes(t *testing.T) {
	var never time.Time
	now := time.Unix(1000, 0)
	later := now.Add(time.Second)
	require.Equal(t, now, entity.Sooner(now, later))
	require.Equal(t, now, entity.Sooner(later, now))
	require.Equal(t, now, entity.Sooner(never, now))
	require.Equal(t, now, entity.Sooner(now, never))
}
