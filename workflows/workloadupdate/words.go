package workloadupdate

import (
	"fmt"
	"strings"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// summary returns the update's progress in one sentence.
func (s *State) summary() string { return s.Guests.Summary(s.Moved, s.Evicted, s.Left, s.More) }

// result returns the update's result.
func (s *State) result() contract.WorkloadUpdateResult {
	return contract.WorkloadUpdateResult{Summary: "No launcher is outdated any more: " + s.summary(), Moved: s.Moved,
		Evicted: s.Evicted, Left: s.Left}
}

// method returns how outdated launchers are updated.
func method(u contract.UpdateStrategy) string {
	var parts []string
	if u.Migrate {
		parts = append(parts, fmt.Sprintf("guests that can be moved are, %d at a time", u.Limit))
	}
	if u.Evict {
		who := "guests"
		if u.Migrate {
			who = "others"
		}
		parts = append(parts, fmt.Sprintf("%s are evicted, %d each %s", who, u.Batch,
			time.Duration(u.IntervalSeconds)*time.Second))
	}
	if len(parts) == 0 {
		return "nothing is done: `spec.workloadUpdateStrategy` of the KubeVirt object names no method"
	}
	return strings.Join(parts, "; ")
}

// Details returns what the Temporal UI shows first.
func (u *update) Details(p entity.Plan) string {
	s := &u.state
	var b strings.Builder
	done := s.Moved + s.Evicted + s.Left
	fmt.Fprintf(&b, "**%d of %d launchers updated: %s**\n\nThe image is now `%s`; %s.", done,
		done+len(s.Guests)+s.More, s.summary(), s.Observed.Image, method(s.Strategy))
	b.WriteString("\n" + s.Guests.Lines())
	b.WriteString(p.WaitText())
	if f := s.Failure; f != nil {
		b.WriteString("\n\n" + f.Text(true))
	}
	return b.String()
}
