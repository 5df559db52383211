package rpc

import "time"

// Time limits for an operation on the guest, from the inside out.
const (
	// GuestAnswers is the time that a guest has to flush its file systems, or to thaw.
	GuestAnswers = 10 * time.Second
	// OutcomeShows is the time within which libvirt's state must show the effect of an operation.
	OutcomeShows = 2 * time.Second
	// OperationAnswered is the time that a caller of Operate waits.
	OperationAnswered = 15 * time.Second
)
