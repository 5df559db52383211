package forward

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

func at(sequence uint64, state contract.DomainState) contract.DomainObservation {
	return contract.DomainObservation{Sequence: sequence, State: state}
}

// pending is what o would send, and whether its sender has been woken for it.
func pending(t *testing.T, o *outbox) *contract.DomainObservation {
	d, ok := o.nextDue()
	woken := false
	select {
	case <-o.changed:
		woken = true
	default:
	}
	if !ok {
		return nil
	}
	require.True(t, woken, "something is to be sent and the sender is not woken")
	return &d
}

func TestOutbox(t *testing.T) {
	running, paused := at(1, contract.DomainRunning), at(2, contract.DomainPaused)
	t.Run("only the newest is sent", func(t *testing.T) {
		o := newOutbox(nil)
		o.offer(running)
		o.offer(paused)
		require.Equal(t, &paused, pending(t, o))
		o.recordSent(paused)
		require.Nil(t, pending(t, o))
	})
	t.Run("what came while the last was on its way is sent after it", func(t *testing.T) {
		o := newOutbox(nil)
		o.offer(running)
		d, _ := o.nextDue()
		o.offer(paused)
		o.recordSent(d)
		require.Equal(t, &paused, pending(t, o))
	})
	t.Run("redelivers what was sent recently, and nothing older", func(t *testing.T) {
		o := newOutbox(&running)
		o.redeliver(time.Now().Add(-time.Minute))
		require.Nil(t, pending(t, o), "an earlier process sent it")
		o.offer(paused)
		o.recordSent(paused)
		o.redeliver(time.Now().Add(time.Minute))
		require.Nil(t, pending(t, o))
		o.redeliver(time.Now().Add(-time.Minute))
		require.Equal(t, &paused, pending(t, o))
		o.recordSent(paused)
		require.Nil(t, pending(t, o), "once")
		absent := at(3, contract.DomainAbsent)
		o.offer(absent)
		o.recordSent(absent)
		o.redeliver(time.Now().Add(-time.Minute))
		require.Equal(t, &absent, pending(t, o), "also that there is none")
	})
	t.Run("back to what the entity knows is no news", func(t *testing.T) {
		o := newOutbox(&running)
		o.offer(paused)
		o.offer(at(3, contract.DomainRunning))
		require.Nil(t, pending(t, o))
	})
	t.Run("a domain that was never started is no news", func(t *testing.T) {
		o := newOutbox(nil)
		o.offer(at(0, contract.DomainAbsent))
		require.Nil(t, pending(t, o))
	})
	t.Run("the answer of a start is not sent again", func(t *testing.T) {
		o := newOutbox(nil)
		o.suspend()
		o.offer(running)
		require.Nil(t, pending(t, o))
		o.resume(&running)
		require.Nil(t, pending(t, o))
	})
	t.Run("what is newer than the answer of a start is sent", func(t *testing.T) {
		o := newOutbox(nil)
		o.suspend()
		o.offer(paused)
		o.resume(&running)
		require.Equal(t, &paused, pending(t, o))
	})
	t.Run("a start that failed holds nothing back for good", func(t *testing.T) {
		o := newOutbox(nil)
		o.suspend()
		o.offer(running)
		o.resume(nil)
		require.Equal(t, &running, pending(t, o))
	})
	t.Run("the end of a guest waits for that of its pod", func(t *testing.T) {
		o := newOutbox(&running)
		o.offer(at(2, contract.DomainShutdown))
		require.Greater(t, o.wait(), time.Duration(0))
		off := at(3, contract.DomainShutoff)
		off.Reason = contract.ReasonDestroyed
		o.offer(off)
		require.Greater(t, o.wait(), time.Duration(0))
		moved := at(4, contract.DomainShutoff)
		moved.Reason = contract.ReasonMigrated
		o.offer(moved)
		require.Zero(t, o.wait(), "others wait for that")
		o.recordSent(moved)
		o.offer(off)
		require.Greater(t, o.wait(), time.Duration(0))
		o.redeliver(time.Now().Add(-time.Minute))
		require.Zero(t, o.wait(), "it may have been forgotten")
	})
	t.Run("a debounce is not prolonged by changes in the same state", func(t *testing.T) {
		o := newOutbox(&running)
		down := at(2, contract.DomainShutdown)
		o.offer(down)
		due := o.due
		down.Sequence, down.AgentConnected = 3, true
		o.offer(down)
		require.Equal(t, due, o.due)
	})
	t.Run("an old answer does not undo what the entity has", func(t *testing.T) {
		o := newOutbox(&paused)
		o.suspend()
		o.resume(&running)
		o.offer(paused)
		require.Nil(t, pending(t, o))
	})
}
