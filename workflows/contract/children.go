package contract

import "encoding/json"

// A transition is a child workflow that is abandoned to itself when its entity's run closes, and found again by its
// workflow ID: neither the Continue-As-New nor the termination of an entity ends what it has begun.
const (
	// SignalDetached tells a transition that the run which opened it continues as new, and will not see how it closes.
	SignalDetached = "detached"
	// SignalTransitionClosed tells an entity how a detached transition closed.
	SignalTransitionClosed = "transition-closed"
)

// TransitionClosed is how a transition closed, as its entity hears of it: from the server, or by signal from a
// transition that was detached.
type TransitionClosed struct {
	ID string `json:"id"`
	// Result is that of the transition's workflow when it succeeded.
	Result json.RawMessage `json:"result,omitempty"`
	// Canceled says that it ended because it was cancelled.
	Canceled bool `json:"canceled,omitempty"`
	// Error says why it failed ("": it did not), and ErrorType is the type of that error.
	Error     string `json:"error,omitempty"`
	ErrorType string `json:"errorType,omitempty"`
}

// ErrorOutcomeUnknown is the type of the error of a transition of which nothing is heard any more.
const ErrorOutcomeUnknown = "OutcomeUnknown"
