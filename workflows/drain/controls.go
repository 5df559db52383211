package drain

import (
	"errors"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// controls are what a person may ask of a drain.
func (d *drain) controls() []entity.Control {
	s := &d.state
	return []entity.Control{
		{
			Name: contract.ControlPauseDrain, Does: "No other guest is moved or evicted; what is under way goes on.",
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
			Name: contract.ControlResumeDrain, Does: "The drain goes on.",
			Check: func(contract.ControlRequest) error {
				if s.Paused == nil {
					return errors.New("the drain is not paused")
				}
				return nil
			},
			Apply: func(time.Time, contract.ControlRequest) (string, error) {
				s.Paused, s.Stale = nil, true
				return "The drain goes on.", nil
			},
		},
		{
			Name: contract.ControlCancelDrain,
			Does: "Its migrations are cancelled as far as that goes, and the guests that are left stay.",
			Check: func(contract.ControlRequest) error {
				if s.Cancelled != nil {
					return errors.New("the drain is cancelled already")
				}
				return nil
			},
			Apply: func(now time.Time, r contract.ControlRequest) (string, error) {
				s.cancel(Request{Actor: r.Actor, Reason: r.Reason, Since: now})
				return "Its migrations are cancelled, and the guests that are left stay.", nil
			},
		},
		entity.RetryNow(&s.Failure, func() bool { return s.Guests.BacksOff() }, s.hurry),
	}
}

// cancel ends the drain when it has taken back what it can.
func (s *State) cancel(r Request) {
	if s.Cancelled == nil {
		s.Cancelled, s.Stale = &r, true
	}
}

// hurry ends the pauses before other attempts.
func (s *State) hurry(time.Time) { s.Guests, s.Stale = s.Guests.Hurried(), true }
