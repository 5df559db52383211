package temporalclient

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

// Outages notices that Temporal is not reached, and that it is reached again. It watches each attempt of a call,
// for the SDK repeats failed ones by itself; and the connection itself, for a server may be away while nothing is sent.
type Outages struct {
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

// NewOutages watches nothing yet: Intercept must be among the client's interceptors.
func NewOutages() *Outages { return &Outages{restored: make(chan time.Time, 1)} }

// Forgotten is how long before its loss Temporal may have taken what it does not know any more. Servers commit within a
// second; a development server on SQLite may lose the last commits of a machine that lost its power.
const Forgotten = 2 * time.Minute

// Restored gets the time of a loss once calls arrive again.
func (o *Outages) Restored() <-chan time.Time { return o.restored }

// Intercept is a grpc.UnaryClientInterceptor.
func (o *Outages) Intercept(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	o.watch.Do(func() { go o.follow(cc) })
	err := next(ctx, method, req, reply, cc, opts...)
	o.Note(path.Base(method), status.Code(err), time.Now())
	return err
}

// follow notes when a connection cannot be made. A server that closes one because of its age lets another be made at
// once.
func (o *Outages) follow(cc *grpc.ClientConn) {
	for {
		state := cc.GetState()
		switch state {
		case connectivity.Shutdown:
			return
		case connectivity.Idle:
			cc.Connect()
		case connectivity.TransientFailure:
			o.lose(time.Now())
			o.Suspect(time.Now())
		case connectivity.Connecting, connectivity.Ready:
		}
		cc.WaitForStateChange(context.Background(), state)
	}
}

// lose notes a loss, unless one is known.
func (o *Outages) lose(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost.IsZero() {
		o.lost = now
	}
}

// Suspect says that Temporal may be an older copy from now on: it was away, or nobody has looked yet.
func (o *Outages) Suspect(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.since = now
	}
	o.suspected = now
}

// Begin is Suspect for a leader that has just begun: what it suspected before it led, it did not look into.
func (o *Outages) Begin(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since, o.suspected = now, now
}

// Suspicion is since when Temporal may be an older copy (zero: it is none).
func (o *Outages) Suspicion() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.suspected
}

// SuspectedSince is when the suspicion began, which what was away again and again since has renewed (zero: there is
// none).
func (o *Outages) SuspectedSince() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.since
}

// Trust ends a suspicion, unless there is a newer one.
func (o *Outages) Trust(suspicion time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.suspected.Equal(suspicion) {
		o.suspected, o.since = time.Time{}, time.Time{}
	}
}

// Note takes the outcome of one attempt of a call.
func (o *Outages) Note(method string, code codes.Code, now time.Time) {
	switch code { //nolint:exhaustive // every other one is an answer
	case codes.Canceled, codes.Unknown:
		return
	case codes.DeadlineExceeded:
		if waitsForWorkers(method) {
			return
		}
		fallthrough
	case codes.Unavailable:
		o.lose(now)
		if code == codes.Unavailable { // one that is merely slow is no other copy
			o.Suspect(now)
		}
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost.IsZero() {
		return
	}
	select {
	case o.restored <- o.lost:
	default: // an earlier loss is still to be seen to, which covers this one
	}
	o.lost = time.Time{}
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
