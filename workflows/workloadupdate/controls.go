package workloadupdate

import (
	"time"

	"github.com/virtflow/virtflow/workflows/entity"
)

// controls returns the controls that a person may send to a workload update.
func (u *update) controls() []entity.Control {
	s := &u.state
	return append(entity.Holdable{
		Manual: &s.Manual, Name: "workload update",
		Hold:     "No other guest is moved or evicted; what is under way continues.",
		Held:     "No other guest is moved or evicted until the workload update is released.",
		Release:  "The workload update continues.",
		Released: "The workload update continues.",
	}.Controls(), entity.RetryNow(&s.Failure, func() bool { return true }, s.endBackOffs))
}

// endBackOffs ends the pauses before other attempts, and has all instances read at once.
func (s *State) endBackOffs(time.Time) {
	s.Guests, s.Settles, s.Stale, s.All = s.Guests.EndBackOffs(), time.Time{}, true, true
}
