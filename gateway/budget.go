package gateway

import (
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/contract"
)

// What one node may add to Temporal's database, in bytes as cost counts them: at once, and for each second. What a
// node with 500 guests needs, each of whose observations has some 2 KiB, and so costs 4:
//
//	all start at once       500 × (3 signals, 1 answer)      6 MiB of signals, 2 MiB of answers
//	all leave in a drain    500 × (10 signals, 4 answers)    20 MiB of signals, 8 MiB of answers, in an hour or more
//	hour by hour            500 × 6 signals                  12 MiB of signals
//
// So a start of all guests, and a drain after it, stay within the budget. A node that needs more sends again what was
// refused. Answers have a budget of their own, which signals cannot use up: the SDK tries one for 10 s only, and then
// its activity is repeated. Each task is answered once, so honest answers are as few as the tasks that Temporal gives.
const (
	signalsAtOnce, signalsPerSecond = 16 << 20, 8 << 10
	answersAtOnce, answersPerSecond = 8 << 20, 8 << 10
	// callCost counts what Temporal writes around each payload: the event itself, and those of the workflow task that
	// it causes.
	callCost = 2 << 10
	// A node reports when its worker starts and when KVM begins or ceases to work.
	reportsAtOnce    = 3
	reportEach       = 10 * time.Second
	reportsPerSecond = rate.Limit(float64(time.Second) / float64(reportEach))
)

// budgets has the budgets of all nodes in one process: each replica has its own.
type budgets struct{ signals, answers, reports rateLimits }

func newBudgets() budgets {
	return budgets{
		signals: newRateLimits(signalsPerSecond, signalsAtOnce),
		answers: newRateLimits(answersPerSecond, answersAtOnce),
		reports: newRateLimits(reportsPerSecond, reportsAtOnce),
	}
}

// spend deducts what a request writes from its node's budget; refund returns it, where the request was not written.
// Heartbeats and polls write no events: Temporal keeps the last heartbeat only.
func (b budgets) spend(node string, request any, now time.Time) (refund func(), err error) {
	of, reports := b.answers, 0
	switch in := request.(type) {
	case *workflowservice.SignalWorkflowExecutionRequest:
		if in.GetSignalName() == contract.SignalReportNode {
			reports = 1
		}
		if !b.reports.allow(node, now, reports) {
			return nil, refuse(ReasonBudget, "node %s reports more often than every %s", node, reportEach)
		}
		of = b.signals
	case *workflowservice.RespondActivityTaskCompletedRequest, *workflowservice.RespondActivityTaskFailedRequest,
		*workflowservice.RespondActivityTaskCanceledRequest:
	default:
		return func() {}, nil
	}
	m, ok := request.(proto.Message)
	if !ok || !of.allow(node, now, cost(m)) {
		return nil, refuse(ReasonBudget, "node %s writes more than it may", node)
	}
	return func() {
		of.allow(node, now, -cost(m))
		b.reports.allow(node, now, -reports)
	}, nil
}

// isUnwritten reports whether an error means that Temporal has not written a request. Where it is unavailable this is
// not certain, but a node cannot cause it.
func isUnwritten(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.ResourceExhausted
}

// cost returns how many bytes a request counts for.
func cost(m proto.Message) int { return callCost + proto.Size(m) }
