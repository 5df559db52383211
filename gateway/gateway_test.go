package gateway

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/failure/v1"
	"go.temporal.io/api/query/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/virtflow/virtflow/contract"
)

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

func pollOf(queue string) *workflowservice.PollActivityTaskQueueRequest {
	return &workflowservice.PollActivityTaskQueueRequest{
		Namespace: namespace, TaskQueue: &taskqueue.TaskQueue{Name: queue, Kind: enums.TASK_QUEUE_KIND_NORMAL},
		Identity: "anything", WorkerControlTaskQueue: "commands", WorkerInstanceKey: "k",
	}
}

// TestForwardsWorkOfANode: what a node worker needs gets through, with the node's name on it and its token taken off.
func TestForwardsWorkOfANode(t *testing.T) {
	r := newRig(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "client-name", "temporal-go", "x-whatever", "y", "caller-type",
		"operator")
	c := r.as(r.node("node1"))

	info, err := c.GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	require.NoError(t, err)
	require.Equal(t, "1", info.GetServerVersion())
	_, err = c.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	require.NoError(t, err)

	r.frontend.task = []byte("temporal's own token")
	task, err := c.PollActivityTaskQueue(ctx, pollOf("virtflow-node-node1"))
	require.NoError(t, err)
	require.NotEqual(t, r.frontend.task, task.GetTaskToken())
	asked := r.frontend.last(t).(*workflowservice.PollActivityTaskQueueRequest)
	require.Equal(t, "node-worker@node1", asked.GetIdentity())
	require.Empty(t, asked.GetWorkerControlTaskQueue())

	beat, err := c.RecordActivityTaskHeartbeat(ctx,
		&workflowservice.RecordActivityTaskHeartbeatRequest{Namespace: namespace, TaskToken: task.GetTaskToken(),
			Identity: "root", Details: jsonPayload([]byte(`{"uid":"u1", "beside":1}`))})
	require.NoError(t, err)
	require.True(t, beat.GetCancelRequested())
	kept := r.frontend.last(t).(*workflowservice.RecordActivityTaskHeartbeatRequest)
	require.Equal(t, "temporal's own token", string(kept.GetTaskToken()))
	require.JSONEq(t, `{"uid":"u1"}`, string(kept.GetDetails().GetPayloads()[0].GetData()))
	_, err = c.RespondActivityTaskCompleted(ctx,
		&workflowservice.RespondActivityTaskCompletedRequest{Namespace: namespace, TaskToken: task.GetTaskToken(),
			Result: jsonPayload([]byte(`{"domain":{"podUID":"u","podUID":"u","sequence":1},"beside":1}`))})
	require.NoError(t, err)
	done := r.frontend.last(t).(*workflowservice.RespondActivityTaskCompletedRequest)
	require.Equal(t, "temporal's own token", string(done.GetTaskToken()))
	require.Equal(t, `{"domain":{"podUID":"u","sequence":1}}`, string(done.GetResult().GetPayloads()[0].GetData()))
	require.Equal(t, "node-worker@node1", done.GetIdentity())
	_, err = c.RespondActivityTaskFailed(ctx,
		&workflowservice.RespondActivityTaskFailedRequest{Namespace: namespace, TaskToken: task.GetTaskToken(),
			Failure:              &failure.Failure{Message: "no"},
			LastHeartbeatDetails: jsonPayload([]byte(`{"uid":"u1", "beside":1}`))})
	require.NoError(t, err)
	require.JSONEq(t, `{"uid":"u1"}`, string(r.frontend.last(t).(*workflowservice.RespondActivityTaskFailedRequest).
		GetLastHeartbeatDetails().GetPayloads()[0].GetData()))
	require.Equal(t, "no", r.frontend.last(t).(*workflowservice.RespondActivityTaskFailedRequest).GetFailure().
		GetMessage())
	_, err = c.RespondActivityTaskCanceled(ctx,
		&workflowservice.RespondActivityTaskCanceledRequest{Namespace: namespace, TaskToken: task.GetTaskToken()})
	require.NoError(t, err)

	_, err = c.SignalWorkflowExecution(ctx, domainSignal("vmi/default/here", podHere), grpc.UseCompressor(gzip.Name))
	require.NoError(t, err)
	sent := r.frontend.last(t).(*workflowservice.SignalWorkflowExecutionRequest)
	require.Equal(t, "vmi/default/here", sent.GetWorkflowExecution().GetWorkflowId())
	require.Contains(t, string(sent.GetInput().GetPayloads()[0].GetData()), `"sequence":2`)
	require.Equal(t, "r1", sent.GetRequestId(), "two tries stay one signal")
	require.Equal(t, "node-worker@node1", sent.GetIdentity())
	_, err = c.SignalWorkflowExecution(ctx,
		signalOf("node/node1", contract.SignalReportNode, contract.NodeReport{KVM: true}))
	require.NoError(t, err)
	_, err = c.ShutdownWorker(ctx,
		&workflowservice.ShutdownWorkerRequest{Namespace: namespace, TaskQueue: "virtflow-node-node1"})
	require.NoError(t, err)

	for i, md := range r.frontend.headers {
		require.Empty(t, md.Get("authorization"), "call %d passes the node's token on", i)
		require.Empty(t, md.Get("x-whatever"))
		require.Empty(t, md.Get("caller-type"))
		require.Equal(t, []string{"temporal-go"}, md.Get("client-name"))
	}
	require.Len(t, r.frontend.got(), 10)
	require.Equal(t, 1, r.reviews, "one review for a while")

	// Temporal's own errors come back as they are.
	r.frontend.fail = status.Error(codes.NotFound, "workflow not found")
	_, err = c.SignalWorkflowExecution(ctx, signalOf("vmi/default/here", contract.SignalObserveDomain,
		contract.DomainObservation{PodUID: string(podHere), Sequence: 3}))
	require.Equal(t, codes.NotFound, status.Code(err))
}

// TestRefused tries what a node, or an attacker with its token, must not do. None of it reaches Temporal, and each is
// counted.
func TestRefused(t *testing.T) {
	big := strings.Repeat("x", maxRequest)
	type client = workflowservice.WorkflowServiceClient
	signal := func(s *workflowservice.SignalWorkflowExecutionRequest) func(context.Context, client) error {
		return func(ctx context.Context, c client) error { _, err := c.SignalWorkflowExecution(ctx, s); return err }
	}
	poll := func(p *workflowservice.PollActivityTaskQueueRequest) func(context.Context, client) error {
		return func(ctx context.Context, c client) error { _, err := c.PollActivityTaskQueue(ctx, p); return err }
	}
	type request = workflowservice.PollActivityTaskQueueRequest
	pollBut := func(alter func(*request)) func(context.Context, client) error {
		p := pollOf("virtflow-node-node1")
		alter(p)
		return poll(p)
	}
	change := func(s *workflowservice.SignalWorkflowExecutionRequest,
		f func(*workflowservice.SignalWorkflowExecutionRequest)) *workflowservice.SignalWorkflowExecutionRequest {
		f(s)
		return s
	}
	ours := &common.WorkflowExecution{WorkflowId: "vmi/default/here"}
	for name, c := range map[string]struct {
		method string
		reason Reason
		code   codes.Code
		do     func(context.Context, client) error
	}{
		"a workflow start": {"StartWorkflowExecution", ReasonMethod, codes.PermissionDenied,
			func(ctx context.Context, c client) error {
				_, err := c.StartWorkflowExecution(ctx,
					&workflowservice.StartWorkflowExecutionRequest{Namespace: namespace,
						WorkflowId: "vmi/default/here"})
				return err
			}},
		"a start by signal": {"SignalWithStartWorkflowExecution", ReasonMethod, codes.PermissionDenied,
			func(ctx context.Context, c client) error {
				_, err := c.SignalWithStartWorkflowExecution(ctx,
					&workflowservice.SignalWithStartWorkflowExecutionRequest{Namespace: namespace,
						WorkflowId: "node/node1"})
				return err
			}},
		"a query": {"QueryWorkflow", ReasonMethod, codes.PermissionDenied, func(ctx context.Context, c client) error {
			_, err := c.QueryWorkflow(ctx,
				&workflowservice.QueryWorkflowRequest{Namespace: namespace, Execution: ours,
					Query: &query.WorkflowQuery{QueryType: "state"}})
			return err
		}},
		"a terminate": {"TerminateWorkflowExecution", ReasonMethod, codes.PermissionDenied,
			func(ctx context.Context, c client) error {
				_, err := c.TerminateWorkflowExecution(ctx,
					&workflowservice.TerminateWorkflowExecutionRequest{Namespace: namespace, WorkflowExecution: ours})
				return err
			}},
		"a history": {"GetWorkflowExecutionHistory", ReasonMethod, codes.PermissionDenied,
			func(ctx context.Context, c client) error {
				_, err := c.GetWorkflowExecutionHistory(ctx,
					&workflowservice.GetWorkflowExecutionHistoryRequest{Namespace: namespace, Execution: ours})
				return err
			}},
		"an answer by ID": {"RespondActivityTaskCompletedById", ReasonMethod, codes.PermissionDenied,
			func(ctx context.Context, c client) error {
				_, err := c.RespondActivityTaskCompletedById(ctx,
					&workflowservice.RespondActivityTaskCompletedByIdRequest{Namespace: namespace,
						WorkflowId: "vmi/default/here", ActivityId: "1"})
				return err
			}},
		"workflow tasks": {"PollWorkflowTaskQueue", ReasonMethod, codes.PermissionDenied,
			func(ctx context.Context, c client) error {
				_, err := c.PollWorkflowTaskQueue(ctx,
					&workflowservice.PollWorkflowTaskQueueRequest{Namespace: namespace,
						TaskQueue: &taskqueue.TaskQueue{Name: "virtflow-node-node1"}})
				return err
			}},
		"another node's queue": {"PollActivityTaskQueue", ReasonTaskQueue, codes.PermissionDenied,
			poll(pollOf("virtflow-node-node2"))},
		"the control queue": {"PollActivityTaskQueue", ReasonTaskQueue, codes.PermissionDenied,
			poll(pollOf(contract.ControlTaskQueue))},
		"a partition of a queue": {"PollActivityTaskQueue", ReasonTaskQueue, codes.PermissionDenied,
			poll(pollOf("/_sys/virtflow-node-node1/1"))},
		"a sticky queue": {"PollActivityTaskQueue", ReasonTaskQueue, codes.PermissionDenied,
			pollBut(func(p *request) { p.TaskQueue.Kind = enums.TASK_QUEUE_KIND_STICKY })},
		"another namespace": {"PollActivityTaskQueue", ReasonNamespace, codes.PermissionDenied,
			pollBut(func(p *request) { p.Namespace = "default" })},
		"no namespace": {"PollActivityTaskQueue", ReasonNamespace, codes.PermissionDenied,
			pollBut(func(p *request) { p.Namespace = "" })},
		"a namespace by its ID": {"DescribeNamespace", ReasonNamespace, codes.PermissionDenied,
			func(ctx context.Context, c client) error {
				_, err := c.DescribeNamespace(ctx,
					&workflowservice.DescribeNamespaceRequest{Namespace: namespace, Id: "1"})
				return err
			}},
		"another node's shutdown": {"ShutdownWorker", ReasonTaskQueue, codes.PermissionDenied,
			func(ctx context.Context, c client) error {
				_, err := c.ShutdownWorker(ctx,
					&workflowservice.ShutdownWorkerRequest{Namespace: namespace, TaskQueue: "virtflow-node-node2"})
				return err
			}},
		"a sticky queue's shutdown": {"ShutdownWorker", ReasonTaskQueue, codes.PermissionDenied,
			func(ctx context.Context, c client) error {
				_, err := c.ShutdownWorker(ctx,
					&workflowservice.ShutdownWorkerRequest{Namespace: namespace, TaskQueue: "virtflow-node-node1",
						StickyTaskQueue: "s"})
				return err
			}},

		"a signal to a VMI elsewhere": {"SignalWorkflowExecution", ReasonWorkflow,
			codes.PermissionDenied, signal(domainSignal("vmi/default/there", podThere))},
		"a VMI elsewhere, with a pod of its own": {"SignalWorkflowExecution", ReasonWorkflow,
			codes.PermissionDenied, signal(domainSignal("vmi/default/there", podHere))},
		"its VMI, with the pod of another node": {"SignalWorkflowExecution", ReasonWorkflow,
			codes.PermissionDenied, signal(domainSignal("vmi/default/here", podThere))},
		"an unknown pod": {"SignalWorkflowExecution", ReasonWorkflow,
			codes.PermissionDenied, signal(domainSignal("vmi/default/here", "ffffffff-0b5d-4c6e-8f70-112233445566"))},
		"no pod": {"SignalWorkflowExecution", ReasonWorkflow,
			codes.PermissionDenied, signal(domainSignal("vmi/default/here", ""))},
		"a VM": {"SignalWorkflowExecution", ReasonWorkflow,
			codes.PermissionDenied, signal(domainSignal("vm/default/here", podHere))},
		"another node's entity": {"SignalWorkflowExecution", ReasonWorkflow,
			codes.PermissionDenied, signal(signalOf("node/node2", contract.SignalReportNode, contract.NodeReport{}))},
		"a run of its VMI that is named": {"SignalWorkflowExecution", ReasonWorkflow, codes.PermissionDenied,
			signal(change(domainSignal("vmi/default/here", podHere),
				func(s *workflowservice.SignalWorkflowExecutionRequest) {
					s.WorkflowExecution.RunId = "r"
				}))},
		"an observation that is crdwatch's": {"SignalWorkflowExecution", ReasonSignal, codes.PermissionDenied,
			signal(signalOf("vmi/default/here", contract.SignalObservePod,
				contract.PodObservation{UID: string(podHere)}))},
		"a control of its VMI": {"SignalWorkflowExecution", ReasonSignal, codes.PermissionDenied,
			signal(signalOf("vmi/default/here", "repair", map[string]string{}))},
		"an observation of its node that is not its": {"SignalWorkflowExecution", ReasonSignal, codes.PermissionDenied,
			signal(signalOf("node/node1", contract.SignalObserveNode, map[string]string{}))},
		"a payload that is no observation": {"SignalWorkflowExecution", ReasonPayload, codes.PermissionDenied,
			signal(signalOf("vmi/default/here", contract.SignalObserveDomain, []int{1}))},
		"two payloads": {"SignalWorkflowExecution", ReasonPayload, codes.PermissionDenied,
			signal(change(domainSignal("vmi/default/here", podHere),
				func(s *workflowservice.SignalWorkflowExecutionRequest) {
					s.Input.Payloads = append(s.Input.Payloads, s.Input.Payloads[0])
				}))},
		"no payload": {"SignalWorkflowExecution", ReasonPayload, codes.PermissionDenied,
			signal(change(domainSignal("vmi/default/here", podHere),
				func(s *workflowservice.SignalWorkflowExecutionRequest) {
					s.Input = nil
				}))},
		"a payload in another encoding": {"SignalWorkflowExecution", ReasonPayload,
			codes.PermissionDenied, signal(
				change(domainSignal("vmi/default/here", podHere),
					func(s *workflowservice.SignalWorkflowExecutionRequest) {
						s.Input.Payloads[0].Metadata["encoding"] = []byte("binary/plain")
					}))},
		"an oversized payload": {"SignalWorkflowExecution", ReasonTooLarge, codes.ResourceExhausted,
			signal(signalOf("vmi/default/here", contract.SignalObserveDomain,
				contract.DomainObservation{PodUID: string(podHere), Reason: big}))},
		"a payload that is not even read": {"SignalWorkflowExecution", ReasonTooLarge, codes.ResourceExhausted,
			signal(signalOf("vmi/default/here", contract.SignalObserveDomain,
				contract.DomainObservation{PodUID: string(podHere), Reason: big + big + big}))},
		"an endless request ID": {"SignalWorkflowExecution", ReasonTooLarge, codes.PermissionDenied,
			signal(change(domainSignal("vmi/default/here", podHere),
				func(s *workflowservice.SignalWorkflowExecutionRequest) {
					s.RequestId = strings.Repeat("i", 200)
				}))},
		"an answer to a task that no node was given": {"RespondActivityTaskCompleted", ReasonTaskToken,
			codes.PermissionDenied, func(ctx context.Context, c client) error {
				_, err := c.RespondActivityTaskCompleted(ctx,
					&workflowservice.RespondActivityTaskCompletedRequest{Namespace: namespace,
						TaskToken: []byte("temporal's own token")})
				return err
			}},
		"an answer without a task": {"RespondActivityTaskFailed", ReasonTaskToken, codes.PermissionDenied,
			func(ctx context.Context, c client) error {
				_, err := c.RespondActivityTaskFailed(ctx,
					&workflowservice.RespondActivityTaskFailedRequest{Namespace: namespace})
				return err
			}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			err := c.do(t.Context(), r.as(r.node("node1")))
			require.Equal(t, c.code, status.Code(err), "%v", err)
			require.Empty(t, r.frontend.got(), "it reached Temporal")
			require.Eventually(t, func() bool {
				return r.refusals(c.method, c.reason) == 1
			}, deadline, tick, "it is not counted")
		})
	}
}

// TestRefusesTaskOfAnotherNode: a task that one node was given cannot be answered by another, nor kept alive.
func TestRefusesTaskOfAnotherNode(t *testing.T) {
	r := newRig(t)
	r.frontend.task = []byte("token")
	task, err := r.as(r.node("node1")).PollActivityTaskQueue(t.Context(), pollOf("virtflow-node-node1"))
	require.NoError(t, err)
	calls := len(r.frontend.got())
	other := r.as(r.node("node2"))
	_, err = other.RespondActivityTaskCompleted(t.Context(),
		&workflowservice.RespondActivityTaskCompletedRequest{Namespace: namespace, TaskToken: task.GetTaskToken()})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	_, err = other.RecordActivityTaskHeartbeat(t.Context(),
		&workflowservice.RecordActivityTaskHeartbeatRequest{Namespace: namespace, TaskToken: task.GetTaskToken()})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	require.Len(t, r.frontend.got(), calls)
	require.EqualValues(t, 1, r.refusals("RespondActivityTaskCompleted", ReasonTaskToken))
	require.EqualValues(t, 1, r.refusals("RecordActivityTaskHeartbeat", ReasonTaskToken))
}

// TestRestartedGatewayOpensTaskTokens: nothing is kept in the process, so nothing is lost with it.
func TestRestartedGatewayOpensTaskTokens(t *testing.T) {
	r := newRig(t)
	r.frontend.task = []byte("token")
	c := r.as(r.node("node1"))
	task, err := c.PollActivityTaskQueue(t.Context(), pollOf("virtflow-node-node1"))
	require.NoError(t, err)
	r.stop()
	_, err = c.GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	r.serve()
	_, err = c.RespondActivityTaskCompleted(t.Context(),
		&workflowservice.RespondActivityTaskCompletedRequest{Namespace: namespace,
			TaskToken: task.GetTaskToken(), Result: jsonPayload([]byte(`{}`))}, grpc.WaitForReady(true))
	require.NoError(t, err, "the same connection, to the new process")
	require.Equal(t, "token",
		string(r.frontend.last(t).(*workflowservice.RespondActivityTaskCompletedRequest).GetTaskToken()))
}

// TestRefusesOtherMethods: of all that Temporal's services offer, also of what comes with a later version.
func TestRefusesOtherMethods(t *testing.T) {
	r := newRig(t)
	c := r.dial(r.node("node1"))
	service := workflowservice.WorkflowService_ServiceDesc
	tried := 0
	for _, m := range service.Methods {
		if _, allowed := r.gateway.rules[m.MethodName]; allowed {
			continue
		}
		tried++
		err := c.Invoke(t.Context(), "/"+service.ServiceName+"/"+m.MethodName, &emptypb.Empty{}, &emptypb.Empty{})
		require.Equal(t, codes.PermissionDenied, status.Code(err), m.MethodName)
		require.EqualValues(t, 1, r.refusals(m.MethodName, ReasonMethod), m.MethodName)
	}
	require.Greater(t, tried, 80)
	for _, m := range []string{
		"/temporal.api.operatorservice.v1.OperatorService/DeleteNamespace",
		"/temporal.server.api.adminservice.v1.AdminService/GetTaskQueueTasks",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.health.v1.Health/Check",
		"/temporal.api.workflowservice.v1.WorkflowService/Nonsense",
	} {
		err := c.Invoke(t.Context(), m, &emptypb.Empty{}, &emptypb.Empty{})
		require.Equal(t, codes.PermissionDenied, status.Code(err), m)
	}
	require.EqualValues(t, 5, r.refusals("unknown", ReasonMethod))
	require.Empty(t, r.frontend.got())
	for name := range rules() {
		require.True(t, r.gateway.counters.methods["/"+service.ServiceName+"/"+name], "there is no method %s", name)
	}
}

// TestRefusesMalformedMessages: what is no message of that method does not get through, nor does it end the process.
func TestRefusesMalformedMessages(t *testing.T) {
	r := newRig(t)
	c := r.dial(r.node("node1"))
	// A string where a submessage belongs.
	err := c.Invoke(t.Context(), "/temporal.api.workflowservice.v1.WorkflowService/SignalWorkflowExecution",
		&common.WorkflowType{Name: "\xff"}, &emptypb.Empty{})
	require.Error(t, err)
	for name := range rules() {
		err := c.Invoke(t.Context(), "/temporal.api.workflowservice.v1.WorkflowService/"+name, &emptypb.Empty{},
			&emptypb.Empty{})
		if name == "GetSystemInfo" {
			require.NoError(t, err)
			continue
		}
		require.Equal(t, codes.PermissionDenied, status.Code(err), name)
	}
	_, err = r.as(r.node("node1")).GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	require.NoError(t, err)
}

// TestLimitsCallsOfOneNode: a node that makes too many calls is slowed down; the other nodes are not.
func TestLimitsCallsOfOneNode(t *testing.T) {
	r := newRig(t)
	c, other := r.as(r.node("node1")), r.as(r.node("node2"))
	r.gateway.limits.Add("node1", rate.NewLimiter(0.0001, 1), time.Hour)
	_, err := c.GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	require.NoError(t, err)
	_, err = c.GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.EqualValues(t, 1, r.refusals("GetSystemInfo", ReasonTooMany))
	_, err = other.GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	require.NoError(t, err)
}

// FuzzSignal: whatever a node sends, only a pod that is on it and the VMI's gets through.
func FuzzSignal(f *testing.F) {
	for _, s := range []*workflowservice.SignalWorkflowExecutionRequest{
		domainSignal("vmi/default/here", podHere), domainSignal("vmi/default/there", podThere), {Namespace: namespace},
	} {
		b, err := proto.Marshal(s)
		require.NoError(f, err)
		f.Add(b, "virtflow-node-node1", []byte("token"))
	}
	g := &Gateway{Options: Options{Namespace: namespace, Pods: fixedPods(f)}}
	f.Fuzz(func(t *testing.T, b []byte, queue string, token []byte) {
		var s workflowservice.SignalWorkflowExecutionRequest
		if proto.Unmarshal(b, &s) != nil {
			return
		}
		out, err := g.checkSignal("node1", &s)
		if err == nil && out.GetWorkflowExecution().GetWorkflowId() != "node/node1" {
			require.Equal(t, "vmi/default/here", out.GetWorkflowExecution().GetWorkflowId())
			require.Contains(t, string(out.GetInput().GetPayloads()[0].GetData()), string(podHere))
		}
		_, refused := open(sealTestKey, "node1", token, time.Now())
		require.NotNil(t, refused)
		if p, err := pollTaskQueue(g, "node1", pollOf(queue)); err == nil {
			require.Equal(t, "virtflow-node-node1", p.GetTaskQueue().GetName())
		}
	})
}
