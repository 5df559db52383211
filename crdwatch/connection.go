package crdwatch

import (
	"context"
	"path"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// Connection notices that Temporal is not reached, and that it is reached again. It watches each attempt of a call,
// for the SDK repeats failed ones by itself; and the connection itself, for a server may be away while nothing is sent.
type Connection struct {
	watch sync.Once
	mu    sync.Mutex
	lost  time.Time // zero: it is not
	// restored gets the time of a loss once calls arrive again.
	restored chan time.Time
	// suspected is when Temporal was away last (zero: somebody has looked since whether it is an older copy).
	suspected time.Time
	// since is when it was away first since somebody has looked (zero: it was not).
	since time.Time
}

// NewConnection watches nothing yet: Intercept must be among the client's interceptors.
func NewConnection() *Connection { return &Connection{restored: make(chan time.Time, 1)} }

// Intercept is a grpc.UnaryClientInterceptor.
func (c *Connection) Intercept(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	c.watch.Do(func() { go c.follow(cc) })
	err := next(ctx, method, req, reply, cc, opts...)
	c.note(path.Base(method), status.Code(err), time.Now())
	return err
}

// follow notes when a connection cannot be made. A server that closes one because of its age lets another be made at
// once.
func (c *Connection) follow(cc *grpc.ClientConn) {
	for {
		state := cc.GetState()
		switch state {
		case connectivity.Shutdown:
			return
		case connectivity.Idle:
			cc.Connect()
		case connectivity.TransientFailure:
			c.lose(time.Now())
			c.suspect(time.Now())
		case connectivity.Connecting, connectivity.Ready:
		}
		cc.WaitForStateChange(context.Background(), state)
	}
}

// lose notes a loss, unless one is known.
func (c *Connection) lose(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost.IsZero() {
		c.lost = now
	}
}

// suspect says that Temporal may be an older copy from now on: it was away, or nobody has looked yet.
func (c *Connection) suspect(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		c.since = now
	}
	c.suspected = now
}

// begin is suspect for a leader that has just begun: what it suspected before it led, it did not look into.
func (c *Connection) begin(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.suspected = now, now
}

// suspicion is since when Temporal may be an older copy (zero: it is none).
func (c *Connection) suspicion() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.suspected
}

// suspectedSince is when the suspicion began, which what was away again and again since has renewed (zero: there is
// none).
func (c *Connection) suspectedSince() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since
}

// trust ends a suspicion, unless there is a newer one.
func (c *Connection) trust(suspicion time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.suspected.Equal(suspicion) {
		c.suspected, c.since = time.Time{}, time.Time{}
	}
}

// note takes the outcome of one attempt of a call.
func (c *Connection) note(method string, code codes.Code, now time.Time) {
	switch code { //nolint:exhaustive // every other one is an answer
	case codes.Canceled, codes.Unknown:
		return
	case codes.DeadlineExceeded:
		if waitsForWorkers(method) {
			return
		}
		fallthrough
	case codes.Unavailable:
		c.lose(now)
		if code == codes.Unavailable { // one that is merely slow is no other copy
			c.suspect(now)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost.IsZero() {
		return
	}
	select {
	case c.restored <- c.lost:
	default: // an earlier loss is still to be seen to, which covers this one
	}
	c.lost = time.Time{}
}

// waitsForWorkers says that a call also takes long where no worker is there to answer it.
func waitsForWorkers(method string) bool {
	switch method {
	case "QueryWorkflow", "UpdateWorkflowExecution", "PollWorkflowExecutionUpdate", "ExecuteMultiOperation":
		return true
	default:
		return false
	}
}
