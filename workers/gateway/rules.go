package gateway

import (
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/workflows/contract"
)

// A rule says what becomes of a node's request: what is passed on instead of it, or an error.
type rule func(g *Gateway, node string, request any) (proto.Message, error)

// on makes a rule of a function for one type of request.
func on[T proto.Message](f func(g *Gateway, node string, in T) (T, error)) rule {
	return func(g *Gateway, node string, request any) (proto.Message, error) {
		in, ok := request.(T)
		if !ok {
			return nil, refuse(ReasonMethod, "the request is not one of that method")
		}
		return f(g, node, in)
	}
}

// rules are all methods that a node may call. A method that is not here is refused, also one that a later version of
// Temporal adds.
func rules() map[string]rule {
	return map[string]rule{
		// What the SDK asks before it works.
		"GetSystemInfo": on(func(*Gateway, string,
			*workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoRequest, error) {
			return &workflowservice.GetSystemInfoRequest{}, nil
		}),
		"DescribeNamespace": on(describe),
		// Tasks of the node's own queue.
		"PollActivityTaskQueue":        on(poll),
		"RecordActivityTaskHeartbeat":  on(heartbeat),
		"RespondActivityTaskCompleted": on(completed),
		"RespondActivityTaskFailed":    on(failed),
		"RespondActivityTaskCanceled":  on(canceled),
		"ShutdownWorker":               on(shutdown),
		// What the node has to tell.
		"SignalWorkflowExecution": on((*Gateway).signalRule),
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

func describe(
	g *Gateway, _ string, in *workflowservice.DescribeNamespaceRequest,
) (*workflowservice.DescribeNamespaceRequest, error) {
	if in.GetId() != "" {
		return nil, refuse(ReasonNamespace, "nodes name a namespace, they do not give its ID")
	}
	return &workflowservice.DescribeNamespaceRequest{Namespace: g.Namespace, WeakConsistency: in.GetWeakConsistency()},
		nil
}

func ownQueue(node string, name string) error {
	if name != contract.NodeTaskQueue(node) {
		return refuse(ReasonTaskQueue, "node %s works on the task queue %s, not on %.128q", node,
			contract.NodeTaskQueue(node), name)
	}
	return nil
}

func poll(
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

// sealed makes of a task that Temporal gives a node one whose token only that node can use.
func (g *Gateway) sealed(node string, answer any) error {
	task, ok := answer.(*workflowservice.PollActivityTaskQueueResponse)
	if !ok || len(task.GetTaskToken()) == 0 {
		return nil
	}
	key, err := g.sealKey()
	if err != nil {
		return err
	}
	task.TaskToken = seal(key, node, task.GetTaskToken(), g.now())
	return nil
}

func (g *Gateway) opened(node string, token []byte) ([]byte, error) {
	if _, err := g.sealKey(); err != nil {
		return nil, err
	}
	last := refuse(ReasonTaskToken, "there is no key that opens it")
	for _, key := range g.OpenKeys() {
		inside, refusal := open(key, node, token, g.now())
		if refusal == nil {
			return inside, nil
		}
		last = refusal
	}
	return nil, last
}

func heartbeat(
	g *Gateway, node string, in *workflowservice.RecordActivityTaskHeartbeatRequest,
) (*workflowservice.RecordActivityTaskHeartbeatRequest, error) {
	token, err := g.opened(node, in.GetTaskToken())
	if err != nil {
		return nil, err
	}
	details, err := heartbeatDetails(in.GetDetails())
	return &workflowservice.RecordActivityTaskHeartbeatRequest{Namespace: g.Namespace, TaskToken: token,
		Details: details, Identity: identity(node)}, err
}

// maxHeartbeat bounds what a heartbeat says, in bytes; Temporal keeps the last one of each activity.
const maxHeartbeat = 4 << 10

// heartbeatDetails are what a move of a guest has to say, written anew; of a node's activities none other has any.
func heartbeatDetails(in *common.Payloads) (*common.Payloads, error) {
	if len(in.GetPayloads()) == 0 {
		return nil, nil
	}
	_, data, err := only[contract.MigrationProgress](in)
	if err != nil {
		return nil, err
	}
	if len(data) > maxHeartbeat {
		return nil, refuse(ReasonTooLarge, "what a heartbeat says is larger than %d bytes", maxHeartbeat)
	}
	return plain(data), nil
}

func completed(
	g *Gateway, node string, in *workflowservice.RespondActivityTaskCompletedRequest,
) (*workflowservice.RespondActivityTaskCompletedRequest, error) {
	token, err := g.opened(node, in.GetTaskToken())
	return &workflowservice.RespondActivityTaskCompletedRequest{Namespace: g.Namespace, TaskToken: token,
		Result: in.GetResult(), Identity: identity(node)}, err
}

func failed(
	g *Gateway, node string, in *workflowservice.RespondActivityTaskFailedRequest,
) (*workflowservice.RespondActivityTaskFailedRequest, error) {
	token, err := g.opened(node, in.GetTaskToken())
	if err != nil {
		return nil, err
	}
	last, err := heartbeatDetails(in.GetLastHeartbeatDetails())
	return &workflowservice.RespondActivityTaskFailedRequest{
		Namespace: g.Namespace, TaskToken: token, Failure: in.GetFailure(), LastHeartbeatDetails: last,
		Identity: identity(node),
	}, err
}

func canceled(
	g *Gateway, node string, in *workflowservice.RespondActivityTaskCanceledRequest,
) (*workflowservice.RespondActivityTaskCanceledRequest, error) {
	token, err := g.opened(node, in.GetTaskToken())
	return &workflowservice.RespondActivityTaskCanceledRequest{Namespace: g.Namespace, TaskToken: token,
		Identity: identity(node)}, err
}

// shutdown says that a worker polls no more: Temporal then gives its open polls nothing.
func shutdown(
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
