package contract

import "time"

// Time limits of an operation on a guest, from the inside out. An outer process waits longer than an inner one works,
// so that it receives the reason of a failure instead of giving up before.
const (
	// OperationOnNode bounds the time that a node's worker gives a launcher, its connection included.
	OperationOnNode = 18 * time.Second
	// OperationQueued is how long the node's worker has to begin: a user waits for the answer.
	OperationQueued = 5 * time.Second
	// OperationLimit bounds the time that an entity gives its node's worker, with repetitions where these do no harm.
	OperationLimit = 25 * time.Second
	// OperationAccepted is how long an entity has to accept or refuse, which takes only its state.
	OperationAccepted = 5 * time.Second
	// OperationAnswered is how long the API server waits for the outcome of an accepted operation.
	OperationAnswered = 35 * time.Second
)
