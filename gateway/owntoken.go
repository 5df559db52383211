package gateway

import (
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ownTokenTimeout is for how long the API server may reject the gateway's own token before the gateway ends.
const ownTokenTimeout = 15 * time.Second

// ownToken follows whether the API server still accepts the gateway's own token. It rejects the token of a deleted pod,
// such as the pod of a lost node whose containers may still run: that gateway can authenticate no caller, and keeps
// node workers that are connected to it from connecting to another one.
type ownToken struct {
	refused chan error // gets one error when the token has been rejected for ownTokenTimeout

	mu    sync.Mutex
	since time.Time // since when it is rejected; zero: it is accepted
}

// observe takes the API server's answer to a request. A request that did not reach it changes nothing.
func (o *ownToken) observe(err error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.since = time.Time{}
	case !apierrors.IsUnauthorized(err):
	case o.since.IsZero():
		o.since = now
	case now.Sub(o.since) >= ownTokenTimeout:
		select {
		case o.refused <- fmt.Errorf("the API server rejects this gateway's token (its pod may have been deleted): %w",
			err):
		default:
		}
	}
}
