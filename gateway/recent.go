package gateway

import (
	"crypto/sha256"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
)

const (
	// recentLife is longer than a node worker waits before it redelivers a signal without an answer.
	recentLife = 2 * time.Minute
	maxRecent  = 50000
)

// recent has the last signal that Temporal accepted for each workflow: an identical one, with the same sequence
// numbers, changes nothing for its workflow. When Temporal is unavailable all signals are forgotten, because Temporal
// may come back without them. It is safe for concurrent use.
type recent struct{ last *utilcache.LRUExpireCache }

func newRecent() recent { return recent{utilcache.NewLRUExpireCache(maxRecent)} }

// check reports whether a request repeats the last signal of its workflow. Call answered with the error that Temporal
// returned.
func (r recent) check(request any) (repeated bool, answered func(error)) {
	of, sum := "", [sha256.Size]byte{}
	if in, ok := request.(*workflowservice.SignalWorkflowExecutionRequest); ok {
		of = in.GetWorkflowExecution().GetWorkflowId()
		sum = sha256.Sum256(in.GetInput().GetPayloads()[0].GetData())
		if last, ok := r.last.Get(of); ok && last == sum {
			return true, nil
		}
	}
	return false, func(err error) {
		switch {
		case status.Code(err) == codes.Unavailable:
			r.last.RemoveAll(func(any) bool { return true })
		case err == nil && of != "":
			r.last.Add(of, sum, recentLife)
		}
	}
}
