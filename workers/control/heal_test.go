package control

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster"
	"github.com/virtflow/virtflow/contract"
	crdkube "github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/internal/temporalclient"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// frontend answers as Temporal's does about namespaces, search attributes and polls, and has no tasks.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
	operatorservice.UnimplementedOperatorServiceServer

	mu         sync.Mutex
	there      bool
	down       bool
	attributes map[string]enums.IndexedValueType
	registered int
	forgetful  int // so many requests after a registration do not know of it yet
	polls      int // open now
}

func (f *frontend) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// lose is an empty database in the place of the one before.
func (f *frontend) lose() { f.there, f.attributes = false, nil }

func (f *frontend) state(needsNamespace bool) error {
	switch {
	case f.down:
		return serviceerror.ToStatus(serviceerror.NewUnavailable("no database")).Err()
	case needsNamespace && !f.there:
		return serviceerror.ToStatus(serviceerror.NewNamespaceNotFound("virtflow")).Err()
	default:
		return nil
	}
}

func (f *frontend) intercept(
	ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	needs := true
	switch request.(type) {
	case *workflowservice.GetSystemInfoRequest, *workflowservice.RegisterNamespaceRequest:
		needs = false
	}
	f.mu.Lock()
	err := f.state(needs)
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return next(ctx, request)
}

func (f *frontend) GetSystemInfo(
	context.Context, *workflowservice.GetSystemInfoRequest,
) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{}},
		nil
}

func (f *frontend) RegisterNamespace(
	context.Context, *workflowservice.RegisterNamespaceRequest,
) (*workflowservice.RegisterNamespaceResponse, error) {
	f.change(func() { f.there, f.registered, f.forgetful = true, f.registered+1, 2 })
	return &workflowservice.RegisterNamespaceResponse{}, nil
}

func (f *frontend) DescribeNamespace(
	context.Context, *workflowservice.DescribeNamespaceRequest,
) (*workflowservice.DescribeNamespaceResponse, error) {
	return &workflowservice.DescribeNamespaceResponse{NamespaceInfo: &namespace.NamespaceInfo{}}, nil
}

func (f *frontend) CountWorkflowExecutions(
	context.Context, *workflowservice.CountWorkflowExecutionsRequest,
) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.attributes) == 0 {
		return nil, serviceerror.ToStatus(serviceerror.NewInvalidArgument("unknown search attribute")).Err()
	}
	return &workflowservice.CountWorkflowExecutionsResponse{}, nil
}

func (f *frontend) ListSearchAttributes(
	context.Context, *operatorservice.ListSearchAttributesRequest,
) (*operatorservice.ListSearchAttributesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.forgetful--; f.forgetful >= 0 {
		return nil, serviceerror.ToStatus(serviceerror.NewNamespaceNotFound("virtflow")).Err()
	}
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: f.attributes}, nil
}

func (f *frontend) AddSearchAttributes(
	_ context.Context, r *operatorservice.AddSearchAttributesRequest,
) (*operatorservice.AddSearchAttributesResponse, error) {
	f.change(func() { f.attributes = r.SearchAttributes })
	return &operatorservice.AddSearchAttributesResponse{}, nil
}

func (f *frontend) PollWorkflowTaskQueue(
	ctx context.Context, _ *workflowservice.PollWorkflowTaskQueueRequest,
) (*workflowservice.PollWorkflowTaskQueueResponse, error) {
	return &workflowservice.PollWorkflowTaskQueueResponse{}, f.poll(ctx)
}

func (f *frontend) PollActivityTaskQueue(
	ctx context.Context, _ *workflowservice.PollActivityTaskQueueRequest,
) (*workflowservice.PollActivityTaskQueueResponse, error) {
	return &workflowservice.PollActivityTaskQueueResponse{}, f.poll(ctx)
}

// poll has no task: it ends after a while, or when the namespace is gone.
func (f *frontend) poll(ctx context.Context) error {
	f.change(func() { f.polls++ })
	defer f.change(func() { f.polls-- })
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state(true)
}

func (f *frontend) serve(t *testing.T) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(grpc.UnaryInterceptor(f.intercept))
	workflowservice.RegisterWorkflowServiceServer(s, f)
	operatorservice.RegisterOperatorServiceServer(s, f)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// TestControlWorkerRecovers: it polls again, and says so, whatever became of Temporal: not there yet, an empty
// database, search attributes that are gone, no answers for a while.
func TestControlWorkerRecovers(t *testing.T) {
	f := &frontend{}
	k := kube.New(kube.Options{Namespaces: []string{"virtflow"}})
	_, err := kube.Put(k, &kubevirt.KubeVirt{
		ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: settings.ObjectName}})
	require.NoError(t, err)
	web := httptest.NewServer(k)
	t.Cleanup(web.CloseClientConnections)
	kv, err := crdkube.New(&rest.Config{Host: web.URL})
	require.NoError(t, err)
	watcher := settings.NewWatcher(kv, "virtflow")

	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { watcher.Run(ctx) })
	require.NoError(t, watcher.WaitForSync(ctx))
	p := &process.Process{Log: zerolog.Nop(), Registry: prometheus.NewRegistry(), Health: process.NewHealth()}
	o := Options{
		Temporal:        temporalclient.Options{Address: f.serve(t), Namespace: contract.Namespace, Plaintext: true},
		MaxConcurrent:   4,
		CachedWorkflows: 16,
		interval:        50 * time.Millisecond,
	}
	all.Go(func() {
		_ = Run(ctx, p, o, &cluster.Activities{}, Kubernetes{KubeVirt: kv, Current: watcher.Object})
	})

	works := func(times int) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			require.NoError(c, p.Health.Ready(ctx))
			require.Equal(c, corev1.ConditionTrue, available(watcher.Object()).Status)
			f.change(func() {
				require.Equal(c, times, f.registered)
				require.Len(c, f.attributes, len(contract.SearchAttributes()))
				require.Positive(c, f.polls)
			})
		}, time.Minute, 20*time.Millisecond)
	}
	works(1)

	f.change(f.lose)
	works(2)
	f.change(func() { f.attributes = nil })
	works(2)

	f.change(func() { f.down = true })
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.ErrorContains(c, p.Health.Ready(ctx), "no database")
		now := available(watcher.Object())
		require.Equal(c, corev1.ConditionFalse, now.Status)
		require.Equal(c, ReasonTemporalNotReachable, now.Reason)
		require.Contains(c, now.Message, "no database")
		require.Zero(c, metric(t, p.Registry, "virtflow_temporal_reachable"))
	}, time.Minute, 20*time.Millisecond)
	f.change(func() { f.down = false; f.lose() })
	works(3)
	require.Equal(t, 1.0, metric(t, p.Registry, "virtflow_temporal_reachable"))
	require.Equal(t, 2.0, metric(t, p.Registry, "virtflow_temporal_polling"), "both task queues")
}

// TestNotReadyBeforeTemporalIsReached: a roll-out with a wrong address stops at its first pod.
func TestNotReadyBeforeTemporalIsReached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	p := &process.Process{Log: zerolog.Nop(), Registry: prometheus.NewRegistry(), Health: process.NewHealth()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	go func() {
		defer close(done)
		o := Options{Temporal: temporalclient.Options{Address: l.Addr().String(), Plaintext: true}}
		_ = Run(ctx, p, o, nil, Kubernetes{})
	}()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		ready := p.Health.Ready(ctx)
		require.ErrorContains(c, ready, contract.ControlTaskQueue)
		require.ErrorContains(c, ready, contract.TransitionTaskQueue)
	}, time.Minute, 20*time.Millisecond)
	require.Never(t, func() bool { return p.Health.Ready(ctx) == nil }, time.Second, 20*time.Millisecond)
	require.Zero(t, metric(t, p.Registry, "virtflow_temporal_polling"))
}

func available(kv *kubevirt.KubeVirt) kubevirt.KubeVirtCondition {
	for _, c := range kv.Status.Conditions {
		if c.Type == kubevirt.KubeVirtConditionAvailable {
			return c
		}
	}
	return kubevirt.KubeVirtCondition{}
}

// metric is the sum of all series of a name.
func metric(t *testing.T, reg *prometheus.Registry, name string) (sum float64) {
	all, err := reg.Gather()
	require.NoError(t, err)
	for _, family := range all {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
			return sum
		}
	}
	require.Fail(t, "no metric "+name)
	return 0
}

// TestAvailable: workers that disagree do not write against each other for ever, and what a dead one has said does not
// stay.
func TestAvailable(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	problem := errors.New("no route to host")
	said := func(status corev1.ConditionStatus, ago time.Duration) []kubevirt.KubeVirtCondition {
		return []kubevirt.KubeVirtCondition{
			{Type: kubevirt.KubeVirtConditionProgressing, Status: corev1.ConditionFalse},
			{Type: kubevirt.KubeVirtConditionAvailable, Status: status,
				LastTransitionTime: metav1.NewTime(now.Add(-ago))},
		}
	}
	for _, c := range []struct {
		name    string
		before  []kubevirt.KubeVirtCondition
		problem error
		failed  bool
		write   bool
	}{
		{name: "nothing was said, all is well", write: true},
		{name: "nothing was said, Temporal does not answer", problem: problem, write: true},
		{name: "nothing new", before: said(corev1.ConditionTrue, time.Hour)},
		{name: "it begins", before: said(corev1.ConditionTrue, time.Hour), problem: problem, write: true},
		{name: "it persists", before: said(corev1.ConditionFalse, time.Hour), problem: problem, failed: true},
		{name: "it persists, and another worker has reported otherwise", before: said(corev1.ConditionTrue, 0),
			problem: problem, failed: true},
		{name: "it is over", before: said(corev1.ConditionFalse, time.Second), failed: true, write: true},
		{name: "another worker has just failed", before: said(corev1.ConditionFalse, time.Minute)},
		{name: "another worker has failed a while ago", before: said(corev1.ConditionFalse, 2*time.Minute),
			write: true},
	} {
		next, write := nextCondition(c.before, c.problem, c.failed, now)
		require.Equal(t, c.write, write, c.name)
		require.Equal(t, c.problem == nil, next.Status == corev1.ConditionTrue, c.name)
	}
}

// TestStatusOfOperator: operators and dashboards find what KubeVirt's operator writes, and it is written once.
func TestStatusOfOperator(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	shown := func(s kubevirt.KubeVirtStatus) map[kubevirt.KubeVirtConditionType]corev1.ConditionStatus {
		out := map[kubevirt.KubeVirtConditionType]corev1.ConditionStatus{}
		for _, c := range s.Conditions {
			require.NotEmpty(t, c.Reason)
			require.False(t, c.LastTransitionTime.IsZero())
			out[c.Type] = c.Status
		}
		return out
	}
	kv := &kubevirt.KubeVirt{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	outdated := 2
	kv.Status.OutdatedVirtualMachineInstanceWorkloads = &outdated
	kv.Status = NextStatus(kv, nil, false, now)
	require.Equal(t, kubevirt.KubeVirtPhaseDeployed, kv.Status.Phase)
	require.EqualValues(t, 3, *kv.Status.ObservedGeneration)
	require.Equal(t, contract.KubeVirtVersion, kv.Status.ObservedKubeVirtVersion)
	require.Equal(t, &outdated, kv.Status.OutdatedVirtualMachineInstanceWorkloads, "another's field stays")
	require.Equal(t, map[kubevirt.KubeVirtConditionType]corev1.ConditionStatus{
		"Available": "True", "Created": "True", "Progressing": "False", "Degraded": "False"}, shown(kv.Status))
	require.Equal(t, kv.Status, NextStatus(kv, nil, false, now.Add(time.Hour)), "nothing has changed")

	kv.Status = NextStatus(kv, errors.New("no route to host"), false, now.Add(time.Hour))
	require.Equal(t, map[kubevirt.KubeVirtConditionType]corev1.ConditionStatus{
		"Available": "False", "Created": "True", "Progressing": "False", "Degraded": "True"}, shown(kv.Status))
	require.Equal(t, kv.Status, NextStatus(kv, errors.New("no route to host"), true, now.Add(2*time.Hour)))

	kv.Generation = 4
	kv.Status = NextStatus(kv, nil, true, now.Add(2*time.Hour))
	require.EqualValues(t, 4, *kv.Status.ObservedGeneration)
	require.Equal(t, corev1.ConditionTrue, shown(kv.Status)["Available"])
	require.Equal(t, corev1.ConditionFalse, shown(kv.Status)["Degraded"])
}
