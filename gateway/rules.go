package gateway

import (
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/contract"
)

// A rule returns the request that is forwarded instead of a node's, or an error.
type rule func(g *Gateway, node string, request any) (proto.Message, error)

// ruleFor makes a rule of a function for one type of request.
func ruleFor[T proto.Message](f func(g *Gateway, node string, in T) (T, error)) rule {
	return func(g *Gateway, node string, request any) (proto.Message, error) {
		in, ok := request.(T)
		if !ok {
			return nil, refuse(ReasonMethod, "the request is not one of that method")
		}
		return f(g, node, in)
	}
}

// rules returns the rules of all methods that a node may call. Any other method is refused, also one that a later
// version of Temporal adds.
func rules() map[string]rule {
	return map[string]rule{
		// The SDK calls these when it connects.
		"GetSystemInfo": ruleFor(func(*Gateway, string,
			*workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoRequest, error) {
			return &workflowservice.GetSystemInfoRequest{}, nil
		}),
		"DescribeNamespace": ruleFor(describeNamespace),
		// Tasks of the node's own queue.
		"PollActivityTaskQueue":        ruleFor(pollTaskQueue),
		"RecordActivityTaskHeartbeat":  ruleFor(recordHeartbeat),
		"RespondActivityTaskCompleted": ruleFor(completeTask),
		"RespondActivityTaskFailed":    ruleFor(failTask),
		"RespondActivityTaskCanceled":  ruleFor(cancelTask),
		"ShutdownWorker":               ruleFor(shutdownWorker),
		// Signals of the node.
		"SignalWorkflowExecution": ruleFor((*Gateway).checkSignal),
	}
}

// named is a request for one namespace; it comes before the method's own rule.
type named interface{ GetNamespace() string }

func (g *Gateway) ownNamespace(request any) error {
	if in, ok := request.(named); ok && in.GetNamespace() != g.Namespace {
		return refuse(ReasonNamespace, "nodes work in the namespace %s, not in %.64q", g.Namespace, in.GetNamespace())
	}
	return nil
}

// describeNamespace returns the request for the gateway's own namespace.
func describeNamespace(
	g *Gateway, _ string, in *workflowservice.DescribeNamespaceRequest,
) (*workflowservice.DescribeNamespaceRequest, error) {
	if in.GetId() != "" {
		return nil, refuse(ReasonNamespace, "nodes name a namespace, they do not give its ID")
	}
	return &workflowservice.DescribeNamespaceRequest{Namespace: g.Namespace, WeakConsistency: in.GetWeakConsistency()},
		nil
}

// ownQueue refuses a task queue that is not the node's own.
func ownQueue(node string, name string) error {
	if name != contract.NodeTaskQueue(node) {
		return refuse(ReasonTaskQueue, "node %s works on the task queue %s, not on %.128q", node,
			contract.NodeTaskQueue(node), name)
	}
	return nil
}

// pollTaskQueue returns the request that polls the node's own task queue.
func pollTaskQueue(
	g *Gateway, node string, in *workflowservice.PollActivityTaskQueueRequest,
) (*workflowservice.PollActivityTaskQueueRequest, error) {
	if err := ownQueue(node, in.GetTaskQueue().GetName()); err != nil {
		return nil, err
	}
	switch in.GetTaskQueue().GetKind() {
	case enums.TASK_QUEUE_KIND_UNSPECIFIED, enums.TASK_QUEUE_KIND_NORMAL:
	default:
		return nil, refuse(ReasonTaskQueue, "a node's task queue is a normal one")
	}
	// Without versions and without a queue for commands to the worker: a node's queue has one worker.
	return &workflowservice.PollActivityTaskQueueRequest{
		Namespace: g.Namespace, TaskQueue: &taskqueue.TaskQueue{Name: in.GetTaskQueue().GetName(),
			Kind: enums.TASK_QUEUE_KIND_NORMAL},
		PollerGroupId: in.GetPollerGroupId(), Identity: identity(node), WorkerInstanceKey: in.GetWorkerInstanceKey(),
	}, nil
}

// sealAnswer replaces the token of a task that Temporal gives a node by one that only that node can use.
func (g *Gateway) sealAnswer(node string, answer any) error {
	given, ok := answer.(*workflowservice.PollActivityTaskQueueResponse)
	if !ok || len(given.GetTaskToken()) == 0 {
		return nil
	}
	key, err := g.sealKey()
	if err != nil {
		return err
	}
	given.TaskToken = seal(key, node, task{given.GetActivityType().GetName(), given.GetTaskToken()}, g.now())
	return nil
}

func (g *Gateway) openToken(node string, token []byte) (task, error) {
	if _, err := g.sealKey(); err != nil {
		return task{}, err
	}
	last := refuse(ReasonTaskToken, "no key opens the task token")
	for _, key := range g.OpenKeys() {
		inside, refusal := open(key, node, token, g.now())
		if refusal == nil {
			return inside, nil
		}
		last = refusal
	}
	return task{}, last
}

// recordHeartbeat returns the request that records a heartbeat of a task of the node.
func recordHeartbeat(
	g *Gateway, node string, in *workflowservice.RecordActivityTaskHeartbeatRequest,
) (*workflowservice.RecordActivityTaskHeartbeatRequest, error) {
	task, err := g.openToken(node, in.GetTaskToken())
	if err != nil {
		return nil, err
	}
	details, err := heartbeatDetails(in.GetDetails())
	return &workflowservice.RecordActivityTaskHeartbeatRequest{Namespace: g.Namespace, TaskToken: task.token,
		Details: details, Identity: identity(node)}, err
}

// maxHeartbeat bounds the details of a heartbeat, in bytes; Temporal keeps the last one of each activity.
const maxHeartbeat = 4 << 10

// heartbeatDetails returns the progress of a migration, encoded again; no other activity of a node has details.
func heartbeatDetails(in *common.Payloads) (*common.Payloads, error) {
	if len(in.GetPayloads()) == 0 {
		return nil, nil
	}
	_, data, err := onePayload[contract.MigrationProgress](in)
	if err != nil {
		return nil, err
	}
	if len(data) > maxHeartbeat {
		return nil, refuse(ReasonTooLarge, "the details of the heartbeat are larger than %d bytes", maxHeartbeat)
	}
	return jsonPayload(data), nil
}

// completeTask returns the request that completes a task of the node, with the result of its activity encoded again.
func completeTask(
	g *Gateway, node string, in *workflowservice.RespondActivityTaskCompletedRequest,
) (*workflowservice.RespondActivityTaskCompletedRequest, error) {
	task, err := g.openToken(node, in.GetTaskToken())
	if err != nil {
		return nil, err
	}
	done, err := resultOf(task.activity, in.GetResult())
	return &workflowservice.RespondActivityTaskCompletedRequest{Namespace: g.Namespace, TaskToken: task.token,
		Result: done, Identity: identity(node)}, err
}

// failTask returns the request that fails a task of the node, with a bounded failure.
func failTask(
	g *Gateway, node string, in *workflowservice.RespondActivityTaskFailedRequest,
) (*workflowservice.RespondActivityTaskFailedRequest, error) {
	task, err := g.openToken(node, in.GetTaskToken())
	if err != nil {
		return nil, err
	}
	last, err := heartbeatDetails(in.GetLastHeartbeatDetails())
	return &workflowservice.RespondActivityTaskFailedRequest{
		Namespace: g.Namespace, TaskToken: task.token, Failure: failureOf(in.GetFailure(), maxFailureCauses),
		LastHeartbeatDetails: last, Identity: identity(node),
	}, err
}

// cancelTask returns the request that reports a task of the node as canceled.
func cancelTask(
	g *Gateway, node string, in *workflowservice.RespondActivityTaskCanceledRequest,
) (*workflowservice.RespondActivityTaskCanceledRequest, error) {
	task, err := g.openToken(node, in.GetTaskToken())
	return &workflowservice.RespondActivityTaskCanceledRequest{Namespace: g.Namespace, TaskToken: task.token,
		Identity: identity(node)}, err
}

// shutdownWorker returns the request by which a worker stops polling: Temporal then gives its open polls no task.
func shutdownWorker(
	g *Gateway, node string, in *workflowservice.ShutdownWorkerRequest,
) (*workflowservice.ShutdownWorkerRequest, error) {
	if err := ownQueue(node, in.GetTaskQueue()); err != nil {
		return nil, err
	}
	if in.GetStickyTaskQueue() != "" {
		return nil, refuse(ReasonTaskQueue, "a node has no sticky task queue")
	}
	return &workflowservice.ShutdownWorkerRequest{
		Namespace: g.Namespace, Identity: identity(node), Reason: "graceful shutdown",
		WorkerInstanceKey: in.GetWorkerInstanceKey(),
		TaskQueue:         in.GetTaskQueue(), TaskQueueTypes: []enums.TaskQueueType{enums.TASK_QUEUE_TYPE_ACTIVITY},
	}, nil
}
