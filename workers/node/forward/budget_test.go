package forward

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// largest is how much of an observation the node gateway lets through, in bytes.
const largest = 64 << 10

// play offers what each moment brings for an hour, sends what is due as the follower does, and returns what was sent.
func play(
	o *outbox, each time.Duration, say func(n int) contract.DomainObservation,
) (sent []contract.DomainObservation) {
	next := time.Now()
	var last time.Time
	for n, end := 0, time.Now().Add(time.Hour); time.Now().Before(end); n++ {
		d := say(n)
		d.Sequence = uint64(n) + 2
		o.offer(d)
		time.Sleep(each)
		if d, ok := o.nextDue(); ok && o.wait() == 0 && !time.Now().Before(next) {
			o.recordSent(d)
			sent, last = append(sent, d), time.Now()
			next = last.Add(time.Duration(float64(time.Second) / signalsPerSecond))
		}
	}
	return sent
}

// TestAnHourOfTheWorstLauncher prints what one guest, and one that has broken out into its launcher, adds to Temporal's
// database in an hour, whatever it does.
func TestAnHourOfTheWorstLauncher(t *testing.T) {
	running := at(1, contract.DomainRunning)
	running.AgentConnected = true
	padded := func(n int) *contract.GuestInfo {
		return &contract.GuestInfo{OS: contract.GuestOS{Name: fmt.Sprintf("%d %s", n, strings.Repeat("x", 16<<10))}}
	}
	for name, c := range map[string]struct {
		each time.Duration
		say  func(n int, d *contract.DomainObservation)
		most int // signals
	}{
		"the agent's port is toggled": {2 * time.Second, func(n int, d *contract.DomainObservation) {
			d.AgentConnected = n%2 == 0
		}, 0},
		"it is toggled slowly": {agentDebounce + time.Second, func(n int, d *contract.DomainObservation) {
			d.AgentConnected = n%2 == 0
		}, 20},
		"each answer is another": {time.Second, func(n int, d *contract.DomainObservation) { d.Guest = padded(n) }, 20},
		"it is frozen and thawed": {time.Second, func(n int, d *contract.DomainObservation) {
			d.Frozen, d.Guest = n%2 == 0, padded(n)
		}, 20},
		"it is paused and resumed": {time.Second, func(n int, d *contract.DomainObservation) {
			d.Guest = padded(n)
			if n%2 == 0 {
				d.State = contract.DomainPaused
			}
		}, 140},
		"its migration has no end": {time.Second, func(n int, d *contract.DomainObservation) {
			d.Guest, d.Migration = padded(n), &contract.MigrationProgress{UID: "m", Remaining: int64(n)}
		}, 180},
		"it crashes again and again": {time.Second, func(n int, d *contract.DomainObservation) {
			d.Guest, d.State, d.Reason = padded(n), contract.DomainCrashed, fmt.Sprint(n)
		}, 20},
		"it ends and runs by turns": {time.Second, func(n int, d *contract.DomainObservation) {
			d.Guest = padded(n)
			if n%2 == 0 {
				d.State, d.Reason = contract.DomainShutoff, contract.ReasonMigrated
			}
		}, 60},
		"it says all of that by turns": {time.Second, func(n int, d *contract.DomainObservation) {
			d.Guest = padded(n)
			switch n % 5 {
			case 0:
				d.State, d.Reason = contract.DomainShutoff, fmt.Sprint(n)
			case 1:
				d.Problem = fmt.Sprint(n)
			case 2:
				d.State, d.Reason = contract.DomainCrashed, fmt.Sprint(n)
			case 3:
				d.Migration = &contract.MigrationProgress{UID: fmt.Sprint(n)}
			}
		}, 360},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := play(newOutbox(&running), c.each, func(n int) contract.DomainObservation {
					d := running
					c.say(n, &d)
					return d
				})
				bytes := 0
				for _, d := range sent {
					b, err := json.Marshal(d)
					require.NoError(t, err)
					require.Less(t, len(b), largest)
					bytes += len(b)
				}
				t.Logf("an hour: %d signals, %d KiB", len(sent), bytes>>10)
				require.LessOrEqual(t, len(sent), c.most)
				require.LessOrEqual(t, bytes, c.most*largest)
			})
		})
	}
}

// TestSendsNewestEventually: the newest report is sent eventually, whatever the guest has reported before.
func TestSendsNewestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := at(1, contract.DomainRunning)
		running.AgentConnected = true
		o := newOutbox(&running)
		play(o, time.Second, func(n int) contract.DomainObservation {
			d := running
			d.Guest = &contract.GuestInfo{OS: contract.GuestOS{Name: fmt.Sprint(n)}}
			return d
		})
		last := at(10000, contract.DomainRunning)
		o.offer(last)
		require.Positive(t, o.wait())
		time.Sleep(agentEach)
		require.Zero(t, o.wait())
		d, ok := o.nextDue()
		require.True(t, ok)
		require.Equal(t, last, d)
		// What is no guest's word does not wait behind it.
		o.offer(at(10001, contract.DomainRunning))
		paused := at(10002, contract.DomainPaused)
		o.offer(paused)
		require.Zero(t, o.wait())
		crashed := at(10003, contract.DomainCrashed)
		o.offer(crashed)
		require.Zero(t, o.wait())
	})
}

// TestDelaysNothingOfAMigration: no report of a migration of ten minutes whose progress is reported each ten seconds is
// delayed, nor the end of a migration that took hours.
func TestDelaysNothingOfAMigration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := at(1, contract.DomainRunning)
		o := newOutbox(&running)
		step := func(n int) contract.DomainObservation {
			d := at(uint64(n)+2, contract.DomainRunning)
			d.Migration = &contract.MigrationProgress{UID: "m", Processed: int64(n)}
			return d
		}
		n := 0
		for ; n < 60; n++ {
			o.offer(step(n))
			require.Zero(t, o.wait(), "after %d", n)
			o.recordSent(step(n))
			time.Sleep(10 * time.Second)
		}
		for ; n < 1000; n++ {
			o.offer(step(n))
			if o.wait() == 0 {
				o.recordSent(step(n))
			}
			require.LessOrEqual(t, o.wait(), moveEach)
			time.Sleep(10 * time.Second)
		}
		paused := at(2000, contract.DomainPaused)
		paused.Reason = contract.PausedMigration
		o.offer(paused)
		require.Zero(t, o.wait())
		o.recordSent(paused)
		moved := at(2001, contract.DomainShutoff)
		moved.Reason = contract.ReasonMigrated
		o.offer(moved)
		require.Zero(t, o.wait())
	})
}

// TestDropsEqualReports: equal reports are dropped, whatever numbers the launcher gives them, and use no budget.
func TestDropsEqualReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crashed := at(1, contract.DomainCrashed)
		same := func(int) contract.DomainObservation { return crashed }
		require.Empty(t, play(newOutbox(&crashed), time.Second, same))
	})
}

// TestReturningAgentIsNotSent: a guest that boots again is without it for a moment.
func TestReturningAgentIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := at(1, contract.DomainRunning)
		running.AgentConnected = true
		o := newOutbox(&running)
		gone := at(2, contract.DomainRunning)
		o.offer(gone)
		require.Equal(t, agentDebounce, o.wait())
		time.Sleep(agentDebounce / 2)
		back := running
		back.Sequence = 3
		o.offer(back)
		require.Nil(t, pending(t, o))
		gone.Sequence = 4
		o.offer(gone)
		require.Equal(t, agentDebounce, o.wait())
		time.Sleep(agentDebounce)
		require.Zero(t, o.wait())
		require.Equal(t, &gone, pending(t, o))
	})
}
