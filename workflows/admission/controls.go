package admission

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/entity"
)

// controls are what a person may ask of the queue.
func (q *queue) controls() []entity.Control {
	s := &q.state
	return append(entity.Holdable{
		Manual: &s.Manual, Name: "queue of migrations",
		Hold:     "Let no migration begin until it is released. Those that run go on.",
		Held:     "No migration begins until the queue is released.",
		Release:  "Let migrations begin, within the cluster's limits.",
		Released: "Migrations begin, within the cluster's limits.",
	}.Controls(), entity.RetryNow(&s.Failure, s.backsOff, s.hurry), entity.Repair(q.loop, s, sound))
}

// backsOff says that a back-off may be ended.
func (s *State) backsOff() bool {
	return slices.ContainsFunc(waiting(s.Entries), func(e Entry) bool { return !e.backOff().IsZero() })
}

// hurry ends the back-offs of all that wait.
func (s *State) hurry(time.Time) {
	for i := range s.Entries {
		if e := &s.Entries[i]; e.waits() && !e.NotBefore.IsZero() {
			e.Hurried = true
		}
	}
}

// sound refuses a corrected state that cannot be meant.
func sound(_, now *State) error {
	seen := map[string]bool{}
	for i, e := range now.Entries {
		switch uid := e.Migration.UID; {
		case uid == "" || e.Migration.Name == "" || e.Migration.Namespace == "":
			return fmt.Errorf("entries: number %d names no migration", i+1)
		case seen[uid]:
			return fmt.Errorf("entries: %s is there twice", uid)
		default:
			seen[uid] = true
		}
	}
	if l := now.Limits; l != nil && (l.Cluster < 0 || l.Outbound < 0) {
		return errors.New("limits: less than none cannot run")
	}
	return nil
}
