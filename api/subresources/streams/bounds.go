package streams

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/virtflow/virtflow/api/subresources"
	"github.com/virtflow/virtflow/internal/inflight"
)

// acquire counts a stream, or a request to an agent, until done is called. The limit of a user does not bound a tenant,
// who may make ServiceAccounts: the limit of the namespace does.
func (s *Streams) acquire(kind string, r *subresources.Request) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, subresources.Unavailable("This server is shutting down: try again.")
	}
	user, namespace := inflight.Quota{Owner: "user " + r.User.Name}, inflight.Quota{Owner: "namespace " + r.Namespace}
	var release func()
	if asksAgent(kind) {
		release, err = s.reads.Acquire(s.Bounds.MaxReads, user, namespace)
	} else {
		user.Max, namespace.Max = s.Bounds.MaxPerUser, s.Bounds.MaxPerNamespace
		release, err = s.inFlight.Acquire(s.Bounds.MaxStreams, user, namespace)
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

// exceeded returns the error for the user, with the limit that is reached.
func exceeded(err error, user inflight.Quota) error {
	var f *inflight.ExceededError
	switch {
	case !errors.As(err, &f):
		return err
	case f.Owner == "":
		return subresources.Unavailable(
			fmt.Sprintf("This server has %d open streams, its limit: try again.", f.InFlight))
	case f.Owner == user.Owner:
		return apierrors.NewTooManyRequestsError(fmt.Sprintf("You have %d open streams, the limit.", f.InFlight))
	}
	return apierrors.NewTooManyRequestsError(
		fmt.Sprintf("Guests of this namespace have %d open streams, the limit.", f.InFlight))
}
