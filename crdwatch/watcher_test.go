package crdwatch

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/restore"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

// withoutToken makes Temporal have no fencing token yet.
func withoutToken(temporal *mocks.Client) {
	update := &mocks.WorkflowUpdateHandle{}
	update.On("Get", mock.Anything, mock.Anything).Return(nil)
	temporal.On("QueryWorkflowWithOptions", mock.Anything, mock.Anything).
		Return(nil, serviceerror.NewNotFound("no such workflow")).Once()
	temporal.On("NewWithStartWorkflowOperation", mock.Anything, mock.Anything, mock.Anything).Return(nil)
	temporal.On("UpdateWithStartWorkflow", mock.Anything, mock.Anything).Return(update, nil)
	temporal.On("QueryWorkflowWithOptions", mock.Anything, mock.Anything).Return(nil, errors.New("no worker"))
}

// TestChecksRestoreAfterOutage, until the check succeeds.
func TestChecksRestoreAfterOutage(t *testing.T) {
	leases := fake.NewClientset().CoordinationV1().Leases("virtflow")
	temporal := &mocks.Client{}
	temporal.On("QueryWorkflowWithOptions", mock.Anything, mock.Anything).Return(nil, errors.New("no worker")).Once()
	withoutToken(temporal)
	w := &view{Watcher: &Watcher{
		options:  Options{Outages: temporalclient.NewOutages(), Log: zerolog.Nop()},
		restores: restore.New(temporal, leases),
		epochs:   newEpochMetrics(nil),
	}}
	w.options.Outages.Suspect(time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.checkRestores(ctx, nil) }()
	require.Eventually(t, func() bool {
		return w.options.Outages.Suspicion().IsZero()
	}, 20*time.Second, time.Millisecond)
	require.EqualValues(t, 1, w.epoch.Load())
	cancel()
	<-done
}

// TestRereadsInEpochOfAnotherLeader: also by a leader that could not read the epoch as it began: its informers may have
// been filled before etcd was restored.
func TestRereadsInEpochOfAnotherLeader(t *testing.T) {
	token := contract.FencingToken{Epoch: 3, Counter: 7}
	for known, reread := range map[int64]bool{0: true, 2: true, 3: false} {
		leases := fake.NewClientset().CoordinationV1().Leases("virtflow")
		temporal := &mocks.Client{}
		payloads, err := converter.GetDefaultDataConverter().ToPayloads(token)
		require.NoError(t, err)
		temporal.On("QueryWorkflowWithOptions", mock.Anything, mock.Anything).
			Return(&client.QueryWorkflowWithOptionsResponse{QueryResult: client.NewValue(payloads)}, nil)
		withoutToken(temporal)
		detector := restore.New(temporal, leases)
		_, err = leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: restore.LeaseName, Annotations: map[string]string{
				"virtflow.io/fencing-epoch":   strconv.FormatInt(token.Epoch, 10),
				"virtflow.io/fencing-counter": strconv.FormatInt(token.Counter, 10),
			}}}, metav1.CreateOptions{})
		require.NoError(t, err)
		ended := false
		w := &view{end: func() { ended = true }, Watcher: &Watcher{
			options:  Options{Outages: temporalclient.NewOutages(), Log: zerolog.Nop()},
			restores: detector, epochs: newEpochMetrics(nil),
		}}
		w.epoch.Store(known)
		require.Equal(t, !reread, w.checkRestore(t.Context(), nil), "epoch %d was known", known)
		require.Equal(t, reread, ended, "epoch %d was known", known)
		if reread {
			require.Equal(t, known, w.epoch.Load(), "what the informers hold is of that epoch")
		}
	}
}

// recording is a Sender that records what it is given.
type recording struct {
	mu   sync.Mutex
	sent []delivery.Delivery
}

func (r *recording) Send(_ context.Context, d *delivery.Delivery) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, *d)
	return nil
}

func (r *recording) WaitProcessed(context.Context, string) error { return nil }

func (r *recording) all() []delivery.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sent)
}

// TestAgainstAPIServer watches a real API server that has the CRDs (VIRTFLOW_TEST_KUBECONFIG).
func TestAgainstAPIServer(t *testing.T) {
	path := os.Getenv("VIRTFLOW_TEST_KUBECONFIG")
	if path == "" {
		t.Skip("VIRTFLOW_TEST_KUBECONFIG names no API server")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	kv, err := kube.New(config)
	require.NoError(t, err)
	ns, err := clients.CoreV1().Namespaces().
		Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "crdwatch-test-"}},
			metav1.CreateOptions{})
	require.NoError(t, err)
	temporal := &mocks.Client{}
	temporal.On("ListWorkflow", mock.Anything, mock.Anything).
		Return(&workflowservice.ListWorkflowExecutionsResponse{}, nil)
	withoutToken(temporal)
	w, err := New(Options{Kubernetes: clients, KubeVirt: kv, Temporal: temporal, Namespace: ns.Name, Identity: "test",
		Workers: 4, Log: zerolog.Nop()})
	require.NoError(t, err)
	r := &recording{}
	w.sender = r
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })

	vm, err := kv.VMs(ns.Name).Create(ctx, &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: ns.Name},
		Spec:       kubevirt.VirtualMachineSpec{Template: &kubevirt.VirtualMachineInstanceTemplateSpec{}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	seen := func(gone bool) func() bool {
		return func() bool {
			for _, d := range r.all() {
				o, ok := d.Payload.(contract.VMObservation)
				if ok && d.Workflow == contract.VMID(ns.Name, "web") && o.UID == string(vm.UID) && o.Gone == gone {
					return true
				}
			}
			return false
		}
	}
	require.Eventually(t, seen(false), 20*time.Second, 10*time.Millisecond)
	require.NoError(t, w.Ready(ctx))
	require.NoError(t, kv.VMs(ns.Name).Delete(ctx, "web", metav1.DeleteOptions{}))
	require.Eventually(t, seen(true), 20*time.Second, 10*time.Millisecond)
	for _, d := range r.all() {
		if strings.HasSuffix(d.Workflow, ns.Name+"/web") {
			o, ok := d.Payload.(contract.VMObservation)
			require.True(t, ok)
			require.Equal(t, o.Gone, d.Start == nil)
		}
	}
}
