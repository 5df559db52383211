package drain

import (
	"fmt"
	"strings"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// summary returns the drain's progress in one sentence.
func (s *State) summary() string { return s.Guests.Summary(s.Moved, s.Evicted, s.Left, s.More) }

// result returns the drain's result.
func (s *State) result() contract.DrainResult {
	r := contract.DrainResult{Summary: "The guests have left: " + s.summary(), Moved: s.Moved, Evicted: s.Evicted,
		Left: s.Left, Scope: s.Scope}
	switch {
	case s.Gone:
		r.Summary = "The node no longer exists: " + s.summary()
	case s.Cancelled != nil && s.Cancelled.Actor == "":
		r.Summary = "The node was uncordoned, so guests stay: " + s.summary()
	case s.Cancelled != nil:
		r.CancelledBy = s.Cancelled.Actor
		r.Summary = fmt.Sprintf("Cancelled by %s (claimed): %s", s.Cancelled.Actor, s.summary())
	case s.Withdrawn:
		r.Summary = "The node is neither tainted nor cordoned any more, so other guests stay: " + s.summary()
	}
	return r
}

// Details returns what the Temporal UI shows first.
func (d *drain) Details(p entity.Plan) string {
	s := &d.state
	var b strings.Builder
	if d.in.Actor != "" {
		fmt.Fprintf(&b, "Asked for by %s. ", d.in.Actor)
	}
	fmt.Fprintf(&b, "Because %s.\n\n**%s: %s**", d.in.Why, s.Node, s.summary())
	since := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	if r := s.Paused; r != nil {
		fmt.Fprintf(&b, "\n\nPaused by %s (claimed) since %s: %s", r.Actor, since(r.Since), r.Reason)
	}
	if r := s.Cancelled; r != nil && r.Actor == "" {
		fmt.Fprintf(&b, "\n\nEnded at %s: %s", since(r.Since), r.Reason)
	} else if r != nil {
		fmt.Fprintf(&b, "\n\nCancelled by %s (claimed) at %s: %s", r.Actor, since(r.Since), r.Reason)
	}
	b.WriteString("\n" + s.Guests.Lines())
	b.WriteString(p.WaitText())
	if f := s.Failure; f != nil {
		b.WriteString("\n\n" + f.Text(true))
	}
	return b.String()
}
