package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/pki"
)

const (
	deadline  = 10 * time.Second
	tick      = 5 * time.Millisecond
	namespace = "virtflow"
	audience  = "virtflow-node-gateway"
	account   = "system:serviceaccount:virtflow:virtflow-node-worker"
)

// frontend is Temporal's, which remembers what came through, and as whom.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
	mu      sync.Mutex
	calls   []proto.Message
	headers []metadata.MD
	task    []byte // handed out by the next poll
	fail    error
	held    chan struct{} // polls wait until it is closed
}

func (f *frontend) hold(until chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = until
}

func (f *frontend) wait(ctx context.Context, method string) {
	f.mu.Lock()
	held := f.held
	f.mu.Unlock()
	if held == nil || path.Base(method) != "PollActivityTaskQueue" {
		return
	}
	select {
	case <-held:
	case <-ctx.Done():
	}
}

func (f *frontend) intercept(ctx context.Context, in any, i *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	f.note(in.(proto.Message))
	f.wait(ctx, i.FullMethod)
	f.mu.Lock()
	defer f.mu.Unlock()
	md, _ := metadata.FromIncomingContext(ctx)
	f.headers = append(f.headers, md)
	if f.fail != nil {
		return nil, f.fail
	}
	switch path.Base(i.FullMethod) {
	case "PollActivityTaskQueue":
		return &workflowservice.PollActivityTaskQueueResponse{TaskToken: f.task, ActivityId: "1",
			ActivityType: &common.ActivityType{Name: contract.ActivityStartDomain}}, nil
	case "SignalWorkflowExecution":
		return &workflowservice.SignalWorkflowExecutionResponse{}, nil
	case "RespondActivityTaskCompleted":
		return &workflowservice.RespondActivityTaskCompletedResponse{}, nil
	case "RespondActivityTaskFailed":
		return &workflowservice.RespondActivityTaskFailedResponse{}, nil
	case "RespondActivityTaskCanceled":
		return &workflowservice.RespondActivityTaskCanceledResponse{}, nil
	case "RecordActivityTaskHeartbeat":
		return &workflowservice.RecordActivityTaskHeartbeatResponse{CancelRequested: true}, nil
	case "GetSystemInfo":
		return &workflowservice.GetSystemInfoResponse{ServerVersion: "1"}, nil
	case "DescribeNamespace":
		return &workflowservice.DescribeNamespaceResponse{}, nil
	case "ShutdownWorker":
		return &workflowservice.ShutdownWorkerResponse{}, nil
	default:
		return nil, errors.New("no answer is known to " + i.FullMethod)
	}
}

func (f *frontend) note(in proto.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, in)
}

func (f *frontend) got() []proto.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]proto.Message(nil), f.calls...)
}

func (f *frontend) last(t *testing.T) proto.Message {
	t.Helper()
	all := f.got()
	require.NotEmpty(t, all)
	return all[len(all)-1]
}

// rig is a gateway between real gRPC connections, with tokens and launcher pods of a made-up cluster.
type rig struct {
	t        *testing.T
	frontend *frontend
	kube     *fake.Clientset
	pods     *Pods
	workers  *Workers
	gateway  *Gateway
	registry *prometheus.Registry
	address  string
	ca       string
	life     time.Duration // of unauthenticated connections; 0: as deployed
	stop     func()

	mu      sync.Mutex
	tokens  map[string]authenticationv1.TokenReviewStatus
	reviews int
	down    bool
	// reviewing holds reviews until it is closed; nil: none.
	reviewing chan struct{}
}

var (
	sealTestKey = []byte("0123456789abcdef0123456789abcdef")
	podHere     = types.UID("3f2a9c1e-0b5d-4c6e-8f70-112233445566")
	podThere    = types.UID("00000000-0b5d-4c6e-8f70-112233445566")
)

func newRig(t *testing.T, change ...func(*rig)) *rig {
	r := &rig{t: t, frontend: &frontend{}, tokens: map[string]authenticationv1.TokenReviewStatus{}}
	r.kube = fake.NewClientset(launcherPodObject("default", "here", podHere, "node1"),
		launcherPodObject("default", "there", podThere, "node2"))
	r.kube.PrependReactor("create", "tokenreviews", r.review)
	r.pods = r.watch()
	r.workers = r.watchWorkers()
	for _, f := range change {
		f(r)
	}
	r.serve()
	return r
}

// watch starts an informer as a gateway does.
func (r *rig) watch() *Pods {
	pods, err := NewPods(r.kube)
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { pods.Run(ctx) })
	r.t.Cleanup(func() { cancel(); all.Wait() })
	require.Eventually(r.t, func() bool { return pods.Ready(ctx) == nil }, deadline, tick)
	return pods
}

// watchWorkers does the same of the node workers' pods. The one that rig's tokens are bound to is not there unless a
// test makes it.
func (r *rig) watchWorkers() *Workers {
	w, err := NewWorkers(r.kube, "virtflow", "virtflow-node-worker")
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { w.Run(ctx) })
	r.t.Cleanup(func() { cancel(); all.Wait() })
	require.Eventually(r.t, w.informer.HasSynced, deadline, tick)
	return w
}

// worker makes the pod to which the tokens of that node are bound.
func (r *rig) worker(node string) {
	_, err := r.kube.CoreV1().Pods("virtflow").Create(r.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "worker-" + node, UID: workerUID(node)},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: "virtflow-node-worker"},
	}, metav1.CreateOptions{})
	require.NoError(r.t, err)
	require.Eventually(r.t, func() bool { return r.workers.isOn(node, string(workerUID(node))) }, deadline, tick)
}

func (r *rig) workerGoes(node string) {
	require.NoError(r.t, r.kube.CoreV1().Pods("virtflow").Delete(r.t.Context(), "worker-"+node, metav1.DeleteOptions{}))
	require.Eventually(r.t, func() bool { return !r.workers.isOn(node, string(workerUID(node))) }, deadline, tick)
}

func workerUID(node string) types.UID { return types.UID("worker-" + node) }

// serve starts a gateway, or a new one after stop.
func (r *rig) serve() {
	t := r.t
	behind, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	temporal := grpc.NewServer(grpc.UnaryInterceptor(r.frontend.intercept))
	workflowservice.RegisterWorkflowServiceServer(temporal, r.frontend)
	go func() { _ = temporal.Serve(behind) }()
	connection, err := grpc.NewClient(behind.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)

	r.registry = prometheus.NewRegistry()
	r.gateway = New(Options{
		Log: zerolog.Nop(), Namespace: namespace, Temporal: workflowservice.NewWorkflowServiceClient(connection),
		Pods:     r.pods,
		Callers:  NewCallers(r.kube, r.workers, audience, "virtflow", "virtflow-node-worker", r.registry),
		Registry: r.registry,
		SealKey:  func() []byte { return sealTestKey }, OpenKeys: func() [][]byte { return [][]byte{sealTestKey} },
	})
	if r.ca == "" {
		r.ca = t.TempDir()
	}
	ca, err := pki.OpenAuthority(r.ca, "gateway test")
	require.NoError(t, err)
	require.NoError(t, ca.Ensure(
		pki.Request{Name: "server", CommonName: "localhost", Names: []string{"localhost"}, ClientToo: true}))
	pair, err := tls.LoadX509KeyPair(r.ca+"/server.crt", r.ca+"/server.key")
	require.NoError(t, err)
	server, err := r.gateway.Server(
		credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}))
	require.NoError(t, err)
	address := r.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	r.address = listener.Addr().String()
	done := make(chan struct{})
	limited := r.gateway.Limit(listener).(*connections)
	if r.life != 0 {
		limited.life = r.life
	}
	go func() { defer close(done); _ = server.Serve(limited) }()
	r.stop = sync.OnceFunc(func() {
		server.Stop()
		<-done
		connection.Close()
		temporal.Stop()
	})
	t.Cleanup(func() { r.stop() })
}

// as is a connection with a token; "" is none.
func (r *rig) as(token string) workflowservice.WorkflowServiceClient {
	return workflowservice.NewWorkflowServiceClient(r.dial(token))
}

func (r *rig) tls() *tls.Config {
	pem := x509.NewCertPool()
	pem.AppendCertsFromPEM(readFile(r.t, r.ca+"/ca.crt"))
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pem, ServerName: "localhost"}
}

func (r *rig) dial(token string) *grpc.ClientConn {
	c, err := grpc.NewClient(r.address,
		grpc.WithTransportCredentials(credentials.NewTLS(r.tls())),
		grpc.WithUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker,
				opts ...grpc.CallOption) error {
				if token != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
				}
				return next(ctx, method, req, reply, cc, opts...)
			}))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// token makes one that the API server knows as that user's on that node.
func (r *rig) token(user, node string, expires time.Time, audiences ...string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	token := jwt(r.t, user, audiences, expires, len(r.tokens))
	s := authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: audiences,
		User: authenticationv1.UserInfo{Username: user}}
	if node != "" {
		s.User.Extra = map[string]authenticationv1.ExtraValue{extraNode: {node}, extraPod: {"worker-" + node},
			extraPodUID: {string(workerUID(node))}}
	}
	r.tokens[token] = s
	return token
}

// node is a good token of a node worker.
func (r *rig) node(name string) string {
	return r.token(account, name, time.Now().Add(time.Hour), audience)
}

func jwt(t *testing.T, user string, audiences []string, expires time.Time, n int) string {
	body, err := json.Marshal(map[string]any{"aud": audiences, "sub": user, "exp": expires.Unix(), "jti": n})
	require.NoError(t, err)
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"RS256"}`)) + "." + part(body) + "." + part(fmt.Append(nil, "signature", n))
}

func (r *rig) review(action kubetesting.Action) (bool, runtime.Object, error) {
	if r.reviewing != nil {
		<-r.reviewing
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reviews++
	if r.down {
		return true, nil, errors.New("the API server is away")
	}
	review := action.(kubetesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
	if len(review.Spec.Audiences) != 1 || review.Spec.Audiences[0] != audience {
		return true, nil, errors.New("reviewed for another audience")
	}
	review.Status = r.tokens[review.Spec.Token]
	return true, review, nil
}

func (r *rig) refusals(method string, reason Reason) float64 {
	return r.counter("virtflow_gateway_refused_total", method, string(reason))
}

// counter is the value of a metric; the values of its labels are in the alphabetical order of their names.
func (r *rig) counter(name string, labels ...string) float64 {
	families, err := r.registry.Gather()
	require.NoError(r.t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			same := len(m.GetLabel()) == len(labels)
			for i, l := range m.GetLabel() {
				same = same && l.GetValue() == labels[i]
			}
			if same {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func launcherPodObject(ns, vmi string, uid types.UID, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: "virt-launcher-" + vmi, UID: uid,
			Labels: map[string]string{contract.LabelLauncher: contract.LabelLauncherValue,
				contract.LabelCreatedBy: "uid-of-" + vmi},
			Annotations: map[string]string{contract.AnnotationDomain: vmi},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance", Name: vmi,
				UID: types.UID("uid-of-" + vmi), Controller: new(true),
			}},
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

// domainSignal is what a node worker sends of a pod.
func domainSignal(workflow string, pod types.UID) *workflowservice.SignalWorkflowExecutionRequest {
	return signalOf(workflow, contract.SignalObserveDomain,
		contract.DomainObservation{PodUID: string(pod), Sequence: 2, State: contract.DomainPaused})
}

func signalOf(workflow, name string, payload any) *workflowservice.SignalWorkflowExecutionRequest {
	data, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	return &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: workflow}, SignalName: name,
		Input:    jsonPayload(data),
		Identity: "anything", RequestId: "r1",
	}
}
