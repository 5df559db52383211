package temporalclient

import (
	"context"
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
	// since is when it was away first since somebody has looked, plus the time that it has been away since (zero: it
	// was not).
	since time.Time
	// failing is since when no call was answered but by Unavailable (zero: the last one was answered otherwise).
	failing time.Time
}

// NewOutages watches nothing yet: Intercept must be among the client's interceptors.
func NewOutages() *Outages { return &Outages{restored: make(chan time.Time, 1)} }

// Forgotten is how long before its loss Temporal may have taken what it does not know any more. Servers commit within a
// second; a development server on SQLite may lose the last commits of a machine that lost its power.
const Forgotten = 2 * time.Minute

// unavailableFor is how long every call must be answered by Unavailable until Temporal counts as away although it is
// connected: then it is its database that is. A server under load answers so from time to time, and others of its
// answers come in between.
const unavailableFor = 2 * time.Second

// Restored gets the time of a loss once calls arrive again.
func (o *Outages) Restored() <-chan time.Time { return o.restored }

// Intercept is a grpc.UnaryClientInterceptor.
func (o *Outages) Intercept(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	o.watch.Do(func() { go o.follow(cc) })
	err := next(ctx, method, req, reply, cc, opts...)
	o.Note(status.Code(err), time.Now())
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

// SuspectedFor is for how long Temporal has been reachable since the suspicion began, which what was away again and
// again since has renewed. The time in which it was away does not count: nobody could look. Without a suspicion it
// returns false.
func (o *Outages) SuspectedFor(now time.Time) (reachable time.Duration, suspected bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return 0, false
	}
	return max(now.Sub(o.since)-o.away(now), 0), true
}

// away is for how long of the suspicion Temporal has not been reachable since it was lost last; the caller holds the
// lock.
func (o *Outages) away(now time.Time) time.Duration {
	if o.since.IsZero() || o.lost.IsZero() {
		return 0
	}
	return max(min(now.Sub(o.since), now.Sub(o.lost)), 0)
}

// Trust ends a suspicion, unless there is a newer one.
func (o *Outages) Trust(suspicion time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.suspected.Equal(suspicion) {
		o.suspected, o.since = time.Time{}, time.Time{}
	}
}

// Note takes the outcome of one attempt of a call. One that took too long says nothing: a server that is merely slow
// has lost nothing, and sending it the same once more would make it slower. A server that has gone silent loses its
// connection, by the SDK's keepalive.
func (o *Outages) Note(code codes.Code, now time.Time) {
	switch code { //nolint:exhaustive // every other one is an answer
	case codes.Canceled, codes.Unknown, codes.DeadlineExceeded:
		return
	case codes.Unavailable:
		if since := o.failed(now); now.Sub(since) >= unavailableFor {
			o.lose(since)
			o.Suspect(now)
		}
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failing = time.Time{}
	if o.lost.IsZero() {
		return
	}
	select {
	case o.restored <- o.lost:
	default: // an earlier loss is still to be seen to, which covers this one
	}
	o.since = o.since.Add(o.away(now))
	o.lost = time.Time{}
}

// failed notes an attempt that was answered by Unavailable, and says since when all have been.
func (o *Outages) failed(now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failing.IsZero() {
		o.failing = now
	}
	return o.failing
}
