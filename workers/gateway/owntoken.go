package gateway

import (
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ownTokenPatience is for how long the API server may refuse the gateway's own token before the gateway ends.
const ownTokenPatience = 15 * time.Second

// ownToken notes whether the API server still takes the gateway's own token. It takes none of a pod that was deleted,
// as that of a lost node is, whose containers may run on: such a gateway can say of nobody who it is, and keeps node
// workers that are connected to it from going to another one.
type ownToken struct {
	refused chan error // gets an error when the token is not taken any more; has room for one

	mu    sync.Mutex
	since time.Time // since when it is refused; zero: it is not
}

// answered notes how the API server has answered a request. What did not reach it says nothing.
func (o *ownToken) answered(err error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.since = time.Time{}
	case !apierrors.IsUnauthorized(err):
	case o.since.IsZero():
		o.since = now
	case now.Sub(o.since) >= ownTokenPatience:
		select {
		case o.refused <- fmt.Errorf("the API server takes this gateway's token no more (its pod may have been deleted): %w",
			err):
		default:
		}
	}
}
