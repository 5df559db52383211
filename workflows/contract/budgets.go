package contract

import "time"

// How long an operation on a guest may take, from the inside out. Whoever waits outside waits longer than whoever works
// inside, so that each hears why it was not done instead of giving up before.
const (
	// OperationOnNode is what a node's worker gives a launcher, its connection included.
	OperationOnNode = 18 * time.Second
	// OperationQueued is how long the node's worker has to begin: somebody waits for the answer.
	OperationQueued = 5 * time.Second
	// OperationLimit is what an entity gives its node's worker, with repetitions where these do no harm.
	OperationLimit = 25 * time.Second
	// OperationAccepted is how long an entity has to accept or refuse: it only looks at its state.
	OperationAccepted = 5 * time.Second
	// OperationAnswered is how long the API server waits for the outcome of what was accepted.
	OperationAnswered = 35 * time.Second
)
