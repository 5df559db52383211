package streams

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/virtflow/virtflow/api/subresources"
	"github.com/virtflow/virtflow/internal/inflight"
)

// acquire counts a stream, or a question to an agent, until done is called. A user's bound is no bound of a tenant, who
// may make ServiceAccounts: the namespace's is.
func (s *Streams) acquire(kind string, r *subresources.Request) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, subresources.Unavailable("This server is about to end: try again.")
	}
	user, namespace := inflight.Quota{Owner: "user " + r.User.Name}, inflight.Quota{Owner: "namespace " + r.Namespace}
	var release func()
	if asksAgent(kind) {
		user.Max, namespace.Max = inflight.Quarter(s.Bounds.Reads), inflight.Quarter(s.Bounds.Reads)
		release, err = s.reads.Acquire(s.Bounds.Reads, user, namespace)
	} else {
		user.Max, namespace.Max = s.Bounds.PerUser, s.Bounds.PerNamespace
		release, err = s.inFlight.Acquire(s.Bounds.All, user, namespace)
	}
	if err != nil {
		return nil, exceeded(err, user)
	}
	s.all.Add(1)
	open := s.open.WithLabelValues(kind)
	open.Inc()
	guest := connection{kind, r.Namespace, r.Name}
	s.guests.add(guest, 1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		release()
		open.Dec()
		s.guests.add(guest, -1)
		s.all.Done()
	}, nil
}

func asksAgent(kind string) bool {
	return kind == "guestosinfo" || kind == "userlist" || kind == "filesystemlist"
}

// exceeded says to the user who has taken what.
func exceeded(err error, user inflight.Quota) error {
	var f *inflight.ExceededError
	switch {
	case !errors.As(err, &f):
		return err
	case f.Owner == "":
		return subresources.Unavailable(fmt.Sprintf("This server has %d open streams, and takes no more.", f.InFlight))
	case f.Owner == user.Owner:
		return apierrors.NewTooManyRequestsError(fmt.Sprintf("You have %d open streams, and get no more.", f.InFlight))
	}
	return apierrors.NewTooManyRequestsError(
		fmt.Sprintf("There are %d open streams to guests of this namespace, and no more are taken.", f.InFlight))
}
