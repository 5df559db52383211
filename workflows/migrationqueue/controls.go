package migrationqueue

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/entity"
)

// controls returns the controls that a person may send to the queue.
func (q *queue) controls() []entity.Control {
	s := &q.state
	return append(entity.Holdable{
		Manual: &s.Manual, Name: "queue of migrations",
		Hold:     "Let no migration begin until it is released. Those that run continue.",
		Held:     "No migration begins until the queue is released.",
		Release:  "Let migrations begin, within the cluster's limits.",
		Released: "Migrations begin, within the cluster's limits.",
	}.Controls(), entity.RetryNow(&s.Failure, s.hasBackOff, s.endBackOffs), entity.Repair(q.loop, s, validate))
}

// hasBackOff reports whether a back-off may be ended.
func (s *State) hasBackOff() bool {
	return slices.ContainsFunc(waiting(s.Entries), func(e Entry) bool { return !e.backOff().IsZero() })
}

// endBackOffs lets all that wait begin without their back-offs.
func (s *State) endBackOffs(time.Time) {
	for i := range s.Entries {
		if e := &s.Entries[i]; e.isWaiting() && !e.NotBefore.IsZero() {
			e.Hurried = true
		}
	}
}

// validate refuses a corrected state that is inconsistent.
func validate(_, now *State) error {
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
