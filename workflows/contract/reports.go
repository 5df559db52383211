package contract

import "time"

// SignalReportRequest tells an entity who has asked the API server to delete its object, or to scale it, as the API
// server said before it was done: with a RequestReport. Nobody waits for it: it may be missing, come after the change
// itself, and be about something that was refused in the end.
const SignalReportRequest = "report-request"

// RequestReport is the argument of SignalReportRequest.
type RequestReport struct {
	// UID is the object that is meant, and ResourceVersion what it was then.
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Operation is OperationDelete, or OperationReplicate with the wanted number of Replicas.
	Operation Operation `json:"operation"`
	Replicas  int       `json:"replicas,omitempty"`
	// Asked is when the API server was asked: a report may come minutes later. Zero: it comes at once.
	Asked time.Time `json:"asked,omitzero"`
	// Actor is the user whom the API server has authenticated.
	Actor string `json:"actor"`
}
