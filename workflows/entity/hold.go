package entity

import (
	"fmt"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Hold freezes an entity: it opens no transition until a person releases it.
type Hold struct {
	Actor  string    `json:"actor,omitempty"` // claimed
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	// Message is what the condition says; for a hold that is older than this workflow, all that is known.
	Message string `json:"message"`
	// Cancelled says that nobody asked for it: a drain that was cancelled has left it, and it ends with what the drain
	// was for.
	Cancelled bool `json:"cancelled,omitempty"`
}

// holdBy is the hold that a request asks for. What says what was done besides, with a comma and a blank behind it, or
// "".
func holdBy(now time.Time, r contract.ControlRequest, what string) *Hold {
	because := ""
	if r.Reason != "" {
		because = ": " + r.Reason
	}
	return &Hold{
		Actor: r.Actor, Reason: r.Reason, Since: now,
		Message: fmt.Sprintf("%sheld by %s (claimed)%s; the control %s lets it go on", what, r.Actor, because,
			contract.ControlRelease),
	}
}

// Holdable is an entity that a person may hold, as they are spoken to about it.
type Holdable struct {
	Manual *Manual
	Name   string // what people call it ("VM")
	// Hold and Release say what the controls do, Held and Released what then is so, in whole sentences.
	Hold, Held, Release, Released string
	// Check refuses a hold; nil: always possible.
	Check func() error
	// OnRelease is done at a release, before what is decided next; nil: nothing.
	OnRelease func()
}

// Controls are hold and release.
func (h Holdable) Controls() []Control {
	m := h.Manual
	return []Control{
		{
			Name: contract.ControlHold, Does: h.Hold,
			Check: func(contract.ControlRequest) error {
				if h.Check != nil {
					if err := h.Check(); err != nil {
						return err
					}
				}
				if m.Hold != nil {
					return fmt.Errorf("the %s is held already: %s", h.Name, m.Hold.Message)
				}
				return nil
			},
			Apply: func(now time.Time, r contract.ControlRequest) (string, error) {
				m.Hold = holdBy(now, r, "")
				return h.Held, nil
			},
		},
		{
			Name: contract.ControlRelease, Does: h.Release,
			Check: func(contract.ControlRequest) error {
				if m.Hold == nil {
					return fmt.Errorf("the %s is not held", h.Name)
				}
				return nil
			},
			Apply: func(time.Time, contract.ControlRequest) (string, error) {
				m.Hold = nil
				if h.OnRelease != nil {
					h.OnRelease()
				}
				return h.Released, nil
			},
		},
	}
}

// HoldShown is the hold that the condition of an object shows, as all that is known of one that is older than this
// workflow. nil: there is none.
func HoldShown(c *contract.Condition) *Hold {
	if c == nil || c.Status != "True" {
		return nil
	}
	h := &Hold{Message: c.Message}
	if c.LastTransitionTime != nil {
		h.Since = *c.LastTransitionTime
	}
	return h
}

// condition shows a hold; nil when there is none.
func (h *Hold) condition() *contract.Condition {
	if h == nil {
		return nil
	}
	return &contract.Condition{Type: contract.ConditionHeld, Status: "True", Reason: "HeldByOperator",
		Message: h.Message}
}

// Forgot says that an object shows a hold of which nothing is known here (nil: it shows none): the memory is that of an
// older copy. A hold from before the last release is not of that kind: the status without it has not been written yet.
func (m *Manual) Forgot(shown *contract.Condition) bool {
	if m.Hold != nil || shown == nil || shown.Status != "True" {
		return false
	}
	for _, r := range m.Records {
		if r.Operation == contract.ControlRelease &&
			(shown.LastTransitionTime == nil || !shown.LastTransitionTime.After(r.Since)) {
			return false
		}
	}
	return true
}
