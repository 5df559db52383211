package roles

import (
	"context"
	"slices"
	"strings"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/authorization"
)

const (
	// prefix begins the organization, in a certificate's subject, that is a role.
	prefix = "virtflow:"
	// controlWorker is the role that may do everything.
	controlWorker = prefix + "control-worker"
	// nodeQueues begins the names of the nodes' task queues.
	nodeQueues = "virtflow-node-"
	// service begins the methods that roles name; others, as the operator service's, no role has.
	service = "/temporal.api.workflowservice.v1.WorkflowService/"
)

// methods has the calls that each role may make. docs/install.md has the same table.
func methods() map[string][]string {
	read := []string{"GetSystemInfo", "DescribeNamespace", "DescribeWorkflowExecution", "QueryWorkflow",
		"ListWorkflowExecutions", "CountWorkflowExecutions", "GetWorkflowExecutionHistory"}
	return map[string][]string{
		prefix + "crdwatch": append(slices.Clone(read), "SignalWorkflowExecution", "SignalWithStartWorkflowExecution",
			"ExecuteMultiOperation", "PollWorkflowExecutionUpdate", "TerminateWorkflowExecution"),
		prefix + "api-server": append(slices.Clone(read), "SignalWorkflowExecution", "UpdateWorkflowExecution",
			"PollWorkflowExecutionUpdate"),
		prefix + "node-gateway": {"GetSystemInfo", "DescribeNamespace", "PollActivityTaskQueue", "RecordActivityTaskHeartbeat",
			"RespondActivityTaskCompleted", "RespondActivityTaskFailed", "RespondActivityTaskCanceled", "ShutdownWorker",
			"SignalWorkflowExecution"},
	}
}

// Mapper is the server's claim mapper: a caller's subject is the organization of its certificate that is a role; ""
// where none is.
type Mapper struct{}

// GetClaims implements authorization.ClaimMapper.
func (Mapper) GetClaims(info *authorization.AuthInfo) (*authorization.Claims, error) {
	claims := &authorization.Claims{}
	if info.TLSSubject == nil {
		return claims, nil
	}
	for _, organization := range info.TLSSubject.Organization {
		if strings.HasPrefix(organization, prefix) {
			claims.Subject = organization
		}
	}
	return claims, nil
}

// Authorizer lets a caller with a role do what the role may, and one without a role everything: the administrator, the
// UI and the server's own services have certificates that name none.
type Authorizer struct{ methods map[string][]string }

// NewAuthorizer returns an Authorizer.
func NewAuthorizer() Authorizer { return Authorizer{methods: methods()} }

// Authorize implements authorization.Authorizer.
func (a Authorizer) Authorize(
	_ context.Context, claims *authorization.Claims, target *authorization.CallTarget,
) (authorization.Result, error) {
	if a.mayCall(claims, target) {
		return authorization.Result{Decision: authorization.DecisionAllow}, nil
	}
	return authorization.Result{Decision: authorization.DecisionDeny,
		Reason: "the role " + claims.Subject + " of the client certificate may not do this"}, nil
}

func (a Authorizer) mayCall(claims *authorization.Claims, target *authorization.CallTarget) bool {
	// A call between the server's own services has no claims; no connection from elsewhere is without a certificate.
	if claims == nil || claims.Subject == "" || claims.Subject == controlWorker {
		return true
	}
	method, is := strings.CutPrefix(target.APIName, service)
	if !is || !slices.Contains(a.methods[claims.Subject], method) {
		return false
	}
	// The control worker's queues are not the gateway's: who polls them answers for it.
	if poll, is := target.Request.(*workflowservice.PollActivityTaskQueueRequest); is {
		return strings.HasPrefix(poll.GetTaskQueue().GetName(), nodeQueues)
	}
	return true
}
