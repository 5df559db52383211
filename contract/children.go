package contract

import "encoding/json"

// A transition is a child workflow with the parent-close policy abandon, found again by its workflow ID: neither the
// Continue-As-New nor the termination of its entity ends it.
const (
	// SignalDetached informs a transition that the run which opened it continues as new, and will not see its end.
	SignalDetached = "detached"
	// SignalTransitionClosed reports the outcome of a detached transition to its entity.
	SignalTransitionClosed = "transition-closed"
)

// TransitionClosed is the outcome of a transition, as its entity receives it: from the server, or by signal from a
// detached transition.
type TransitionClosed struct {
	ID string `json:"id"`
	// Result is the JSON result of the transition's workflow when it succeeded.
	Result json.RawMessage `json:"result,omitempty"`
	// Canceled is set when it ended because it was cancelled.
	Canceled bool `json:"canceled,omitempty"`
	// Error is why it failed ("": it did not), and ErrorType is the type of that error.
	Error     string `json:"error,omitempty"`
	ErrorType string `json:"errorType,omitempty"`
}

// ErrorOutcomeUnknown is the type of the error of a transition that has disappeared without a report.
const ErrorOutcomeUnknown = "OutcomeUnknown"
