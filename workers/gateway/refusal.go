package gateway

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reason is why a call was refused, as the metric virtflow_gateway_refused_total shows it.
type Reason string

// Of the caller.
const (
	ReasonNoToken  Reason = "no-token"
	ReasonBadToken Reason = "bad-token" // the API server does not know it, or not any more
	ReasonExpired  Reason = "expired-token"
	ReasonAudience Reason = "wrong-audience"
	ReasonAccount  Reason = "wrong-account"
	ReasonNoNode   Reason = "no-node" // it is bound to none
	// ReasonTooManyTokens is that of a token about which the API server was not asked.
	ReasonTooManyTokens Reason = "too-many-tokens"
)

// Of the call.
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
	// ReasonMalformed is a call that gRPC itself could not read.
	ReasonMalformed Reason = "malformed"
)

// Refusal is the error of a call that is not let through.
type Refusal struct {
	Reason  Reason
	Message string
}

func refuse(r Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: r, Message: fmt.Sprintf(format, args...)}
}

func (r *Refusal) Error() string { return r.Message }

// GRPCStatus is what the caller sees.
func (r *Refusal) GRPCStatus() *status.Status {
	code := codes.PermissionDenied
	switch r.Reason {
	case ReasonNoToken, ReasonBadToken, ReasonExpired, ReasonAudience:
		code = codes.Unauthenticated
	case ReasonTooMany, ReasonTooManyTokens:
		code = codes.ResourceExhausted
	default:
	}
	return status.New(code, "node gateway: "+r.Message)
}

// counters count calls; their labels are bounded whatever a caller sends.
type counters struct {
	refused *prometheus.CounterVec
	passed  *prometheus.CounterVec
	methods map[string]bool
}

func newCounters(r prometheus.Registerer) *counters {
	c := &counters{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_gateway_refused_total", Help: "Calls of nodes that were refused, by method and reason.",
		}, []string{"method", "reason"}),
		passed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_gateway_passed_total",
			Help: "Calls of nodes that were passed on to Temporal, by method and gRPC code of its answer.",
		}, []string{"method", "code"}),
		methods: map[string]bool{},
	}
	for _, m := range workflowservice.WorkflowService_ServiceDesc.Methods {
		c.methods["/"+workflowservice.WorkflowService_ServiceDesc.ServiceName+"/"+m.MethodName] = true
	}
	if r != nil {
		r.MustRegister(c.refused, c.passed)
	}
	return c
}

// label is the name of a method of Temporal's service, or "unknown".
func (c *counters) label(full string) string {
	if !c.methods[full] {
		return "unknown"
	}
	return full[len(workflowservice.WorkflowService_ServiceDesc.ServiceName)+2:]
}
