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

// Outages detects when Temporal is lost, and when it is reached again. It watches each attempt of a call, since the SDK
// repeats failed ones by itself, and the connection itself, since a server may be away while nothing is sent.
type Outages struct {
	watch sync.Once
	mu    sync.Mutex
	lost  time.Time // zero: it is reachable
	// restored receives the time of a loss once calls arrive again.
	restored chan time.Time
	// suspected is when Temporal was last away; zero once a restore check has run since.
	suspected time.Time
	// since is when Temporal was first away since the last restore check, plus the time for which it has been away
	// since then; zero if it was not.
	since time.Time
	// failing is since when all calls got Unavailable; zero if the last one got another answer.
	failing time.Time
}

// NewOutages returns Outages; its Intercept must be among the client's interceptors.
func NewOutages() *Outages { return &Outages{restored: make(chan time.Time, 1)} }

// Forgotten is how long before its loss Temporal may have accepted data that it has lost. Servers commit within a
// second; a development server on SQLite may lose the last commits of a machine that lost its power.
const Forgotten = 2 * time.Minute

// unavailableFor is how long every call must get Unavailable until Temporal counts as away although it is connected:
// then its database is away. A server under load sends Unavailable from time to time, with other answers in between.
const unavailableFor = 2 * time.Second

// Restored returns a channel that receives the time of a loss once calls arrive again.
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

// follow records when a connection cannot be made. When a server closes one because of its age, the next one succeeds
// at once.
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

// lose records a loss, unless one is recorded.
func (o *Outages) lose(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost.IsZero() {
		o.lost = now
	}
}

// Suspect records that Temporal may be an older copy: it was away, or no restore check has run yet.
func (o *Outages) Suspect(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.since = now
	}
	o.suspected = now
}

// Begin is like Suspect, for a leader that has just begun: it made no restore checks before it led.
func (o *Outages) Begin(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since, o.suspected = now, now
}

// Suspicion returns since when Temporal may be an older copy; zero if it cannot be.
func (o *Outages) Suspicion() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.suspected
}

// SuspectedFor returns for how long Temporal has been reachable since the suspicion began, which each further outage
// renews. Time in which it was away does not count, because no check could run. Without a suspicion it returns false.
func (o *Outages) SuspectedFor(now time.Time) (reachable time.Duration, suspected bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return 0, false
	}
	return max(now.Sub(o.since)-o.away(now), 0), true
}

// away returns for how long Temporal has not been reachable since the last loss, within the suspicion; the caller holds
// the lock.
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

// Note records the outcome of one attempt of a call. A timeout is ignored: a server that is merely slow has lost
// nothing, and sending it the same again would make it slower. A server that has become silent loses its connection, by
// the SDK's keepalive.
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
	default: // an earlier loss has not been handled yet, which covers this one
	}
	o.since = o.since.Add(o.away(now))
	o.lost = time.Time{}
}

// failed records an attempt that got Unavailable, and returns since when all have.
func (o *Outages) failed(now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failing.IsZero() {
		o.failing = now
	}
	return o.failing
}
