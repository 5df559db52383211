package workloadupdate

import (
	"time"

	"github.com/virtflow/virtflow/workflows/entity"
)

// controls are what a person may ask of a workload update.
func (u *update) controls() []entity.Control {
	s := &u.state
	return append(entity.Holdable{
		Manual: &s.Manual, Name: "workload update",
		Hold:     "No other guest is moved or evicted; what is under way goes on.",
		Held:     "No other guest is moved or evicted until the workload update is released.",
		Release:  "The workload update goes on.",
		Released: "The workload update goes on.",
	}.Controls(), entity.RetryNow(&s.Failure, func() bool { return true }, s.hurry))
}

// hurry ends the pauses before other attempts, and looks at all at once.
func (s *State) hurry(time.Time) {
	s.Guests, s.Settles, s.Stale, s.All = s.Guests.Hurried(), time.Time{}, true, true
}
