package entity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

// TestAsksDetachedTransition: if it was terminated, nothing else reports its end.
func TestAsksDetachedTransition(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	end := waits.For(waits.Transition, "start")
	next := func(time.Time) entity.Decision { return entity.Decision{Waiting: end} }
	require.Zero(t, (*entity.Transition)(nil).Decide(now, next).WakeAt)
	open := &entity.Transition{Since: now, Deadline: now.Add(time.Hour)}
	require.Zero(t, open.Decide(now, next).WakeAt, "the server says how it closes")
	open.Detached, open.Asked = true, now
	for asks, wait := range []time.Duration{30, 60, 120, 240, 300, 300} {
		open.Asks = asks
		d := open.Decide(now, next)
		require.Equal(t, end, d.Waiting)
		require.Equal(t, now.Add(wait*time.Second), d.WakeAt)
		require.Equal(t, entity.ActAsk, open.Decide(d.WakeAt, next).Action)
		now = d.WakeAt
		open.Asked = now
	}
	open.AskNow()
	require.Equal(t, entity.ActAsk, open.Decide(now, next).Action)
	(*entity.Transition)(nil).AskNow()
}

// TestRecordsTransition: one record for each, with the number of attempts.
func TestRecordsTransition(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var m entity.Manual
	for i, id := range []string{"one", "two"} {
		open := &entity.Transition{ID: id, Operation: contract.OperationStart, Why: "Always", Actor: "alice",
			Since: now}
		m.RecordOpened(open)
		require.Len(t, m.Records, i+1)
		require.True(t, m.Records[i].Until.IsZero())
		m.RecordClosed(open, contract.TransitionClosed{},
			entity.Outcome{ID: id, Error: open.SupersededText(), At: now.Add(time.Second)})
		require.Len(t, m.Records, i+1)
		require.Equal(t, contract.OperationRecord{
			Operation: contract.OperationStart, ID: id, Why: "Always", Actor: "alice", Since: now,
			Until:   now.Add(time.Second),
			Outcome: "superseded by a newer desired state", Attempts: i + 1,
		}, m.Records[i])
	}
}

func TestTransitionTexts(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	open := entity.Transition{ID: "vm/a/b/start/1", Operation: contract.OperationStart, Why: "run strategy Always",
		Since: at, Actor: "alice", ApprovedBy: "bob"}
	require.Equal(t, "Doing: start since 2026-01-02T03:04:05Z because run strategy Always, asked for by alice, "+
		"approved by bob (claimed) (`vm/a/b/start/1`).", open.Text())
	o := entity.Outcome{Operation: contract.OperationStop, Summary: "The instance is gone.", At: at}
	require.Equal(t, "Last transition: stop at 2026-01-02T03:04:05Z, The instance is gone.", o.Text())
	require.Equal(t, "Last transition: stop at 2026-01-02T03:04:05Z.",
		(&entity.Outcome{Operation: contract.OperationStop, At: at}).Text())
}
