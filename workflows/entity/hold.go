package entity

import (
	"fmt"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// Hold is an operator hold: the entity opens no transition until a person releases it.
type Hold struct {
	Actor  string    `json:"actor,omitempty"` // claimed
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	// Message is the condition's; of a hold that is older than this workflow nothing else is known.
	Message string `json:"message"`
	// Cancelled is set for a hold that no person requested: the cancellation of a drain leaves it, and it ends when the
	// node need not be drained any longer.
	Cancelled bool `json:"cancelled,omitempty"`
}

// holdBy returns the hold that a control requests. what is what the control did besides, with a comma and a blank at
// its end, or "".
func holdBy(now time.Time, r contract.ControlRequest, what string) *Hold {
	because := ""
	if r.Reason != "" {
		because = ": " + r.Reason
	}
	return &Hold{
		Actor: r.Actor, Reason: r.Reason, Since: now,
		Message: fmt.Sprintf("%sheld by %s (claimed)%s; the control %s ends the hold", what, r.Actor, because,
			contract.ControlRelease),
	}
}

// Holdable is an entity that a person may hold, with the texts that the person reads.
type Holdable struct {
	Manual *Manual
	Name   string // what people call it ("VM")
	// Hold and Release describe the controls, Held and Released their effects, in whole sentences.
	Hold, Held, Release, Released string
	// Check refuses a hold; nil: always possible.
	Check func() error
	// OnRelease is called at a release, before the next plan; nil: nothing is.
	OnRelease func()
}

// Controls returns the controls hold and release.
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

// HoldShown returns the hold that an object's condition shows, for one that is older than this workflow. nil: none.
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

// condition returns the condition of a hold; nil: there is none.
func (h *Hold) condition() *contract.Condition {
	if h == nil {
		return nil
	}
	return &contract.Condition{Type: contract.ConditionHeld, Status: "True", Reason: "HeldByOperator",
		Message: h.Message}
}

// HasLostHold reports whether an object shows a hold (nil: none) that this state does not have: the state is that of an
// older copy. A hold from before the last release does not count: the status without it has not been written yet.
func (m *Manual) HasLostHold(shown *contract.Condition) bool {
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
