package migrate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

const (
	// remembered is how long the outcome of a session is kept for an activity whose answer was lost.
	remembered = 15 * time.Minute
	// abortTimeout is how long launchers have to abort when the node worker ends. libvirt needs less than a second.
	abortTimeout = 20 * time.Second
)

// ErrNotOffered is the error for a migration for which this run of the node worker has no key, and which it cannot
// begin.
var ErrNotOffered = errors.New("the migration was not offered by this run of the node worker")

// Sessions has the migrations of guests that leave this node. It is safe for concurrent use.
type Sessions struct {
	node    string
	log     zerolog.Logger
	traffic traffic
	results *prometheus.CounterVec

	mu       sync.Mutex
	offers   map[string]*migration.Identity
	byUID    map[string]*Session
	stopping bool
	work     sync.WaitGroup
}

// NewSessions returns an empty one. Node is this node's name, for metrics. r gets them; it may be nil.
func NewSessions(node string, log zerolog.Logger, r prometheus.Registerer) *Sessions {
	s := &Sessions{node: node, log: log, traffic: newTraffic(r, launchers.SideSource),
		offers: map[string]*migration.Identity{}, byUID: map[string]*Session{},
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_node_migrations_ended_total", Help: "Migrations that have ended at their source, by how.",
		}, []string{"result"}),
	}
	newGauge(r, launchers.SideSource, s.underWay)
	if r != nil {
		r.MustRegister(s.results, newProgress(s))
	}
	return s
}

// underWay counts the sessions that have not ended.
func (s *Sessions) underWay() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.byUID {
		if known.IsUnderWay() {
			n++
		}
	}
	return n
}

// progress returns the progress of the sessions that have not ended, if the launcher has reported any, by namespace and
// name.
func (s *Sessions) progress() map[contract.Object]contract.MigrationProgress {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[contract.Object]contract.MigrationProgress{}
	for _, known := range s.byUID {
		if p := known.Progress(); known.IsUnderWay() && p.Total > 0 {
			out[contract.Object{Namespace: known.vmi.Namespace, Name: known.vmi.Name}] = p
		}
	}
	return out
}

// Offer makes the key by which the target is to know this node in a migration that ends before expires. For the same
// time it returns the same answer: an earlier caller may have passed it to the target already.
func (s *Sessions) Offer(uid string, expires time.Time) (migration.Fingerprint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(time.Now())
	if s.stopping {
		return "", ErrStopping
	}
	if known := s.offers[uid]; known != nil && !expires.Truncate(time.Second).After(known.Expires) {
		return known.Fingerprint(), nil
	}
	made, err := migration.NewIdentity(uid, expires)
	if err != nil {
		return "", err
	}
	s.offers[uid] = made
	return made.Fingerprint(), nil
}

// Revoke drops the key of a migration that has not begun: it cannot begin any more.
func (s *Sessions) Revoke(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.offers, uid)
}

// Begin moves the guest of a VMI to a target that is prepared, or returns the session that does so already, which may
// have ended. It fails with ErrNotOffered or ErrStopping, and then has begun nothing.
func (s *Sessions) Begin(
	uid string, vmi contract.Object, target migration.Peer, source Source,
) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(time.Now())
	if known := s.byUID[uid]; known != nil {
		return known, nil
	}
	identity := s.offers[uid]
	switch {
	case s.stopping:
		return nil, ErrStopping
	case identity == nil:
		return nil, ErrNotOffered
	}
	delete(s.offers, uid)
	begun := newSession(s.log, uid, identity, target, source)
	begun.traffic, begun.vmi = s.traffic, vmi
	s.byUID[uid] = begun
	s.work.Go(func() { begun.run(s.results) })
	return begun, nil
}

// Get returns the session of a migration; nil: there is none, or it was dropped.
func (s *Sessions) Get(uid string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(time.Now())
	return s.byUID[uid]
}

// forget drops old sessions; the caller holds the lock.
func (s *Sessions) forget(now time.Time) {
	for uid, o := range s.offers {
		if now.After(o.Expires) {
			delete(s.offers, uid)
		}
	}
	for uid, known := range s.byUID {
		if ended, over := known.endTime(); over && now.Sub(ended) > remembered {
			delete(s.byUID, uid)
		}
	}
}

// Shutdown begins nothing any more and returns when all sessions have ended. When ctx ends it has their launchers
// abort; it cuts what that does not end, which libvirt takes for an abort as well, unless the guest has left already.
func (s *Sessions) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.stopping = true
	var all []*Session
	for _, known := range s.byUID {
		all = append(all, known)
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	for _, known := range all {
		go func() { _ = known.Abort(late, ErrStopping.Error()) }() // the outcome has the result
	}
	select {
	case <-ended:
		return
	case <-late.Done():
	}
	for _, known := range all {
		known.cancel(ErrStopping)
	}
	<-ended
}
