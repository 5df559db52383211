package gateway

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reason names why a call was refused, as the metric virtflow_gateway_refused_total shows it.
type Reason string

// Reasons that are about the caller.
const (
	ReasonNoToken  Reason = "no-token"
	ReasonBadToken Reason = "bad-token" // the API server does not know it (any more)
	ReasonExpired  Reason = "expired-token"
	ReasonAudience Reason = "wrong-audience"
	ReasonAccount  Reason = "wrong-account"
	ReasonNoNode   Reason = "no-node" // it is not bound to a node
	// ReasonTooManyTokens refuses a token without a review: its address or node is at the rate limit.
	ReasonTooManyTokens Reason = "too-many-tokens"
)

// Reasons that are about the call.
const (
	ReasonMethod    Reason = "method"
	ReasonNamespace Reason = "namespace"
	ReasonTaskQueue Reason = "task-queue"
	ReasonTaskToken Reason = "task-token"
	ReasonWorkflow  Reason = "workflow" // not of that node
	ReasonSignal    Reason = "signal"
	ReasonPayload   Reason = "payload"
	ReasonTooLarge  Reason = "too-large"
	ReasonTooMany   Reason = "too-many"
	// ReasonBudget refuses a call that would write more into Temporal's database than a node may.
	ReasonBudget Reason = "budget"
	// ReasonSlow refuses a message that did not arrive in time.
	ReasonSlow Reason = "slow"
	// ReasonMalformed refuses a message that gRPC cannot decode.
	ReasonMalformed Reason = "malformed"
)

// Refusal is the error of a call that is not forwarded.
type Refusal struct {
	Reason  Reason
	Message string
}

func refuse(r Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: r, Message: fmt.Sprintf(format, args...)}
}

func (r *Refusal) Error() string { return r.Message }

// GRPCStatus returns the status that the caller gets.
func (r *Refusal) GRPCStatus() *status.Status {
	code := codes.PermissionDenied
	switch r.Reason {
	case ReasonNoToken, ReasonBadToken, ReasonExpired, ReasonAudience:
		code = codes.Unauthenticated
	case ReasonTooMany, ReasonTooManyTokens, ReasonBudget:
		code = codes.ResourceExhausted
	case ReasonSlow:
		code = codes.DeadlineExceeded
	default:
	}
	return status.New(code, "node gateway: "+r.Message)
}

// counters count calls; their labels are bounded whatever a caller sends.
type counters struct {
	refused *prometheus.CounterVec
	passed  *prometheus.CounterVec
	closed  *prometheus.CounterVec
	// repeated counts signals that are not forwarded because Temporal has them.
	repeated prometheus.Counter
	methods  map[string]bool
}

func newCounters(r prometheus.Registerer) *counters {
	c := &counters{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_gateway_refused_total", Help: "Refused calls of nodes, by method and reason.",
		}, []string{"method", "reason"}),
		passed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_gateway_passed_total",
			Help: "Calls of nodes that were forwarded to Temporal, by method and gRPC code of its answer.",
		}, []string{"method", "code"}),
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_gateway_connections_closed_total",
			Help: "Connections that the gateway closed, or refused to count for a node, by reason.",
		}, []string{"reason"}),
		repeated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtflow_gateway_repeated_signals_total",
			Help: "Signals of nodes that were not forwarded, because Temporal had just accepted an identical one.",
		}),
		methods: map[string]bool{},
	}
	for _, m := range workflowservice.WorkflowService_ServiceDesc.Methods {
		c.methods["/"+workflowservice.WorkflowService_ServiceDesc.ServiceName+"/"+m.MethodName] = true
	}
	if r != nil {
		r.MustRegister(c.refused, c.passed, c.closed, c.repeated)
	}
	return c
}

// label returns the name of a method of Temporal's service, or "unknown".
func (c *counters) label(full string) string {
	if !c.methods[full] {
		return "unknown"
	}
	return full[len(workflowservice.WorkflowService_ServiceDesc.ServiceName)+2:]
}
