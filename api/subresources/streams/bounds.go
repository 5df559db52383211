package streams

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/virtflow/virtflow/api/subresources"
	"github.com/virtflow/virtflow/workers/node/access/places"
)

// take counts a stream, or a question to an agent, until done is called. A user's bound is no bound of a tenant, who may make ServiceAccounts:
// the namespace's is.
func (s *Streams) take(kind string, r *subresources.Request) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, subresources.Unavailable("This server is about to end: try again.")
	}
	user, namespace := places.Share{Of: "user " + r.User.Name}, places.Share{Of: "namespace " + r.Namespace}
	var leave func()
	if asksAgent(kind) {
		user.Most, namespace.Most = places.Quarter(s.Bounds.Reads), places.Quarter(s.Bounds.Reads)
		leave, err = s.reads.Take(s.Bounds.Reads, user, namespace)
	} else {
		user.Most, namespace.Most = s.Bounds.PerUser, s.Bounds.PerNamespace
		leave, err = s.taken.Take(s.Bounds.All, user, namespace)
	}
	if err != nil {
		return nil, full(err, user)
	}
	s.all.Add(1)
	open := s.open.WithLabelValues(kind)
	open.Inc()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		leave()
		open.Dec()
		s.all.Done()
	}, nil
}

func asksAgent(kind string) bool {
	return kind == "guestosinfo" || kind == "userlist" || kind == "filesystemlist"
}

// full says to the user who has taken what.
func full(err error, user places.Share) error {
	var f *places.FullError
	switch {
	case !errors.As(err, &f):
		return err
	case f.Of == "":
		return subresources.Unavailable(fmt.Sprintf("This server has %d open streams, and takes no more.", f.Taken))
	case f.Of == user.Of:
		return apierrors.NewTooManyRequestsError(fmt.Sprintf("You have %d open streams, and get no more.", f.Taken))
	}
	return apierrors.NewTooManyRequestsError(fmt.Sprintf("There are %d open streams to guests of this namespace, and no more are taken.", f.Taken))
}
