package contract

import "time"

// SignalReportRequest reports to an entity, with a RequestReport, who has asked the API server to delete or scale its
// object. The API server sends it before the change and does not wait: it may be missing, arrive after the change, or
// be about a request that was refused in the end.
const SignalReportRequest = "report-request"

// RequestReport is the argument of SignalReportRequest.
type RequestReport struct {
	// UID is the object's, and ResourceVersion its version then.
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Operation is OperationDelete, or OperationReplicate with the desired number of Replicas.
	Operation Operation `json:"operation"`
	Replicas  int       `json:"replicas,omitempty"`
	// Asked is when the API server got the request: a report may come minutes later. Zero: it comes at once.
	Asked time.Time `json:"asked,omitzero"`
	// Actor is the user whom the API server has authenticated.
	Actor string `json:"actor"`
}
