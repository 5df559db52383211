package launcher

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errEnding is the answer to a call that comes once the loop has ended. The loop itself does not give it.
var errEnding error = endingError{}

type endingError struct{}

func (endingError) Error() string { return "the launcher is ending" }

// GRPCStatus returns what the caller receives.
func (e endingError) GRPCStatus() *status.Status {
	return status.New(codes.FailedPrecondition, e.Error())
}

// call is a call of the service, for the loop. The answer is nil or an error with a gRPC status; the channel takes it
// without a receiver.
type call[T any] struct {
	request T
	answer  chan error
}

// ask sends a request to the loop and waits for the answer. It returns errEnding once over is closed. A caller that
// disconnects changes nothing.
func ask[T any](ctx context.Context, over <-chan struct{}, calls chan<- call[T], request T) error {
	c := call[T]{request: request, answer: make(chan error, 1)}
	select {
	case calls <- c:
	case <-over:
		return errEnding
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	select {
	case err := <-c.answer:
		return err
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
