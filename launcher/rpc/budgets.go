package rpc

import "time"

// How long an operation on the guest may take, from the inside out.
const (
	// GuestAnswers is how long a guest may take to write everything out, or to thaw.
	GuestAnswers = 10 * time.Second
	// OutcomeShows is how long an operation that was done may take to show in what libvirt tells.
	OutcomeShows = 2 * time.Second
	// OperationAnswered is how long whoever calls Operate waits for it.
	OperationAnswered = 15 * time.Second
)
