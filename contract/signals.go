package contract

import "encoding/json"

// ActivitySignal signals a workflow from within a workflow task (package activities/signals).
const ActivitySignal = "SignalWorkflow"

// SignalInput is a signal to the open workflow of that ID.
type SignalInput struct {
	ID      string          `json:"id"`
	Signal  string          `json:"signal"`
	Payload json.RawMessage `json:"payload,omitempty"`
}
