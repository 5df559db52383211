package drain

import (
	"errors"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// controls returns the controls that a person may send to a drain.
func (d *drain) controls() []entity.Control {
	s := &d.state
	return []entity.Control{
		{
			Name: contract.ControlPauseDrain, Does: "No other guest is moved or evicted; what is under way continues.",
			Check: func(contract.ControlRequest) error {
				switch {
				case s.Cancelled != nil:
					return errors.New("the drain is cancelled")
				case s.Paused != nil:
					return errors.New("the drain is paused already")
				}
				return nil
			},
			Apply: func(now time.Time, r contract.ControlRequest) (string, error) {
				s.Paused = &Request{Actor: r.Actor, Reason: r.Reason, Since: now}
				return "No other guest is moved or evicted.", nil
			},
		},
		{
			Name: contract.ControlResumeDrain, Does: "The drain continues.",
			Check: func(contract.ControlRequest) error {
				if s.Paused == nil {
					return errors.New("the drain is not paused")
				}
				return nil
			},
			Apply: func(time.Time, contract.ControlRequest) (string, error) {
				s.Paused, s.Stale = nil, true
				return "The drain continues.", nil
			},
		},
		{
			Name: contract.ControlCancelDrain,
			Does: "Its migrations are cancelled where that is still possible, and the remaining guests stay on the " +
				"node.",
			Check: func(contract.ControlRequest) error {
				if s.Cancelled != nil {
					return errors.New("the drain is cancelled already")
				}
				return nil
			},
			Apply: func(now time.Time, r contract.ControlRequest) (string, error) {
				s.cancel(Request{Actor: r.Actor, Reason: r.Reason, Since: now})
				return "Its migrations are cancelled, and the remaining guests stay on the node.", nil
			},
		},
		entity.RetryNow(&s.Failure, func() bool { return s.Guests.BacksOff() }, s.endBackOffs),
	}
}

// cancel makes the drain cancel its migrations, clear its evacuations, and end.
func (s *State) cancel(r Request) {
	if s.Cancelled == nil {
		s.Cancelled, s.Stale = &r, true
	}
}

// endByUncordon ends the drain as a cancellation does, but no person has cancelled it: another may begin.
func (s *State) endByUncordon(now time.Time) {
	s.cancel(Request{Reason: "the node is not cordoned any more", Since: now})
}

// endBackOffs ends the pauses before other attempts.
func (s *State) endBackOffs(time.Time) { s.Guests, s.Stale = s.Guests.EndBackOffs(), true }
