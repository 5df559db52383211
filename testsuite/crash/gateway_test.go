//go:build crash

package crash

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/temporalclient"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/workers/control"
)

const gatewayAudience = "virtflow-node-gateway"

// gateway is the node gateway's program, with a Temporal and an API server of the test.
type gateway struct {
	t       *testing.T
	server  *temporalServer
	dir     string
	program string
	url     string
	address string
	kube    *kube.Server
	process *exec.Cmd
}

// TestNodeGateway runs the deployed program between a real worker and a real Temporal. An activity that a node has in
// hand when the gateway is killed is answered through the next gateway, and calls that a node must not make are
// refused.
func TestNodeGateway(t *testing.T) {
	d := newGateway(t)
	direct, err := client.Dial(d.server.options("virtflow"))
	require.NoError(t, err)
	t.Cleanup(direct.Close)
	require.NoError(t, control.EnsureNamespace(t.Context(), direct, "virtflow", zerolog.Nop()))

	// The control plane's side: an entity that receives signals, and work for the node's queue.
	run := worker.New(direct, contract.ControlTaskQueue, worker.Options{})
	run.RegisterWorkflowWithOptions(onNode, workflow.RegisterOptions{Name: "on-node"})
	run.RegisterWorkflowWithOptions(entityOf, workflow.RegisterOptions{Name: "entity"})
	require.NoError(t, run.Start())
	t.Cleanup(run.Stop)

	d.start()
	token := d.token("node1")
	node := d.client(token)
	begun, proceed := make(chan struct{}, 10), make(chan struct{})
	finish := sync.OnceFunc(func() { close(proceed) })
	w := worker.New(node, contract.NodeTaskQueue("node1"), worker.Options{DisableWorkflowWorker: true})
	w.RegisterActivityWithOptions(func(ctx context.Context) (string, error) {
		begun <- struct{}{}
		<-proceed
		activity.RecordHeartbeat(ctx, "alive")
		return "done", nil
	}, activity.RegisterOptions{Name: "work"})
	require.NoError(t, w.Start())
	t.Cleanup(func() { finish(); w.Stop() })

	start := func(name, id string) client.WorkflowRun {
		r, err := direct.ExecuteWorkflow(t.Context(),
			client.StartWorkflowOptions{ID: id, TaskQueue: contract.ControlTaskQueue}, name)
		require.NoError(t, err)
		return r
	}
	task := start("on-node", "task")
	select {
	case <-begun:
	case <-time.After(time.Minute):
		t.Fatal("the node was given no task")
	}
	end(d.process)
	d.start()
	finish()
	var said string
	require.NoError(t, task.Get(t.Context(), &said))
	require.Equal(t, "done", said)
	require.Empty(t, begun, "the activity was done once")
	again := start("on-node", "again")
	require.NoError(t, again.Get(t.Context(), &said), "the same worker polls the new process")

	// Signals.
	here, there := start("entity", contract.VMIID("default", "here")),
		start("entity", contract.VMIID("default", "there"))
	pod := d.launcher("here", "node1")
	other := d.launcher("there", "node2")
	signal := func(vmi, pod string) error {
		return node.SignalWorkflow(t.Context(), contract.VMIID("default", vmi), "", contract.SignalObserveDomain,
			contract.DomainObservation{PodUID: pod, Sequence: 7})
	}
	until(t, 20*time.Second, "the VMI's signal arrives", func() error { return signal("here", pod) })
	require.NoError(t, here.Get(t.Context(), &said))
	require.Equal(t, pod, said)

	var denied *serviceerror.PermissionDenied
	require.ErrorAs(t, signal("there", other), &denied)
	require.ErrorAs(t, signal("there", pod), &denied)
	_, err = node.ExecuteWorkflow(t.Context(),
		client.StartWorkflowOptions{ID: "mine", TaskQueue: contract.ControlTaskQueue}, "on-node")
	require.ErrorAs(t, err, &denied)
	_, err = node.QueryWorkflow(t.Context(), there.GetID(), "", "__stack_trace")
	require.ErrorAs(t, err, &denied)
	require.ErrorAs(t, node.TerminateWorkflow(t.Context(), there.GetID(), "", "no"), &denied)
	require.ErrorAs(t, node.CancelWorkflow(t.Context(), there.GetID(), ""), &denied)
	_, err = node.DescribeWorkflowExecution(t.Context(), there.GetID(), "")
	require.ErrorAs(t, err, &denied)
	_, err = node.GetWorkflowHistory(t.Context(), there.GetID(), "", false, 1).Next()
	require.ErrorAs(t, err, &denied)

	// A renewed token is read again; without a token every call is refused.
	require.NoError(t, os.WriteFile(token, []byte("nothing"), 0o600))
	require.Error(t, signal("here", pod))
	d.write(token, "node2")
	require.NoError(t, signal("there", other), "the VMI is on another node now")
	require.NoError(t, there.Get(t.Context(), &said))
}

// onNode runs one activity on the node's queue.
func onNode(ctx workflow.Context) (string, error) {
	var out string
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: contract.NodeTaskQueue("node1"), StartToCloseTimeout: 2 * time.Minute, HeartbeatTimeout: time.Minute,
	}), "work").Get(ctx, &out)
	return out, err
}

// entityOf ends with the first domain observation that it receives.
func entityOf(ctx workflow.Context) (string, error) {
	var d contract.DomainObservation
	workflow.GetSignalChannel(ctx, contract.SignalObserveDomain).Receive(ctx, &d)
	return d.PodUID, nil
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	d := &gateway{t: t, server: startTemporal(t), dir: t.TempDir(),
		kube: kube.New(kube.Options{Namespaces: []string{"virtflow"}})}
	d.address = "127.0.0.1:" + freePorts(t, 1)[0]
	d.program = filepath.Join(d.dir, "node-gateway")
	run(t, root(t), "go", "build", "-trimpath", "-buildvcs=false", "-o", d.program, "./cmd/node-gateway")
	for _, o := range []func() error{
		func() error {
			_, err := kube.Put(d.kube,
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow",
					Name: "virtflow-node-gateway-certificate"}})
			return err
		},
		func() error {
			_, err := kube.Put(d.kube,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow",
					Name: "virtflow-node-gateway-ca"}})
			return err
		},
	} {
		require.NoError(t, o())
	}
	web := httptest.NewServer(http.HandlerFunc(d.serveKubernetes))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	d.url = web.URL
	return d
}

// serveKubernetes adds to the API server in memory what only the gateway calls: discovery, and token reviews. The
// tokens of this test contain their node.
func (d *gateway) serveKubernetes(w http.ResponseWriter, r *http.Request) {
	answer := func(code int, o any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(o)
	}
	switch r.URL.Path {
	case "/api":
		answer(http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
			Versions: []string{"v1"}})
	case "/apis":
		answer(http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
	case "/api/v1":
		answer(http.StatusOK, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"},
			GroupVersion: "v1", APIResources: []metav1.APIResource{
				{Name: "secrets", Kind: "Secret", Namespaced: true},
				{Name: "configmaps", Kind: "ConfigMap", Namespaced: true},
			}})
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		// Clients send it as protobuf.
		body, err := io.ReadAll(r.Body)
		var review authenticationv1.TokenReview
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &review)
		}
		if err != nil {
			answer(http.StatusBadRequest, metav1.Status{Message: err.Error()})
			return
		}
		out := authenticationv1.TokenReview{
			TypeMeta: metav1.TypeMeta{Kind: "TokenReview", APIVersion: "authentication.k8s.io/v1"}}
		if node := nodeOf(review.Spec.Token); node != "" {
			out.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{gatewayAudience},
				User: authenticationv1.UserInfo{
					Username: "system:serviceaccount:virtflow:virtflow-node-worker",
					Extra:    map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/node-name": {node}},
				}}
		}
		answer(http.StatusCreated, out)
	default:
		d.kube.ServeHTTP(w, r)
	}
}

// start starts the gateway and waits until it has published its CA and is ready.
func (d *gateway) start() {
	d.t.Helper()
	config := filepath.Join(d.dir, "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"x","cluster":{"server":%q}}],"contexts":[{"name":"x","context":{"cluster":"x"}}]}`, d.url)
	require.NoError(d.t, os.WriteFile(config, []byte(text), 0o600))
	health := "127.0.0.1:" + freePorts(d.t, 1)[0]
	d.process = start(d.t, filepath.Join(d.dir, "gateway.log"), nil, d.program, "--kubeconfig", config, "--namespace",
		"virtflow", "--address", d.address, "--metrics-address", health,
		"--temporal-address", d.server.address, "--temporal-namespace", "virtflow", "--temporal-tls-server-name",
		"localhost",
		"--temporal-tls-ca", filepath.Join(d.server.tls, "ca.crt"), "--temporal-tls-cert",
		filepath.Join(d.server.tls, "node-gateway.crt"),
		"--temporal-tls-key", filepath.Join(d.server.tls, "node-gateway.key"))
	until(d.t, time.Minute, "the gateway is ready", func() error {
		r, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, d.log())
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s\n%s", r.Status, d.log())
		}
		return nil
	})
	var ca string
	until(d.t, time.Minute, "the gateway has published its CA", func() error {
		if ca = kube.Get[corev1.ConfigMap](d.kube, "virtflow", "virtflow-node-gateway-ca").Data["ca.crt"]; ca == "" {
			return errors.New("it has not")
		}
		return nil
	})
	require.NoError(d.t, os.WriteFile(filepath.Join(d.dir, "ca.crt"), []byte(ca), 0o600))
}

func (d *gateway) log() string {
	b, _ := os.ReadFile(filepath.Join(d.dir, "gateway.log"))
	return string(b)
}

// client connects with a node worker's credentials: the token, and the published CA.
func (d *gateway) client(token string) client.Client {
	d.t.Helper()
	o := temporalclient.Options{
		Address: d.address, Namespace: "virtflow", TLSCA: filepath.Join(d.dir, "ca.crt"),
		TLSServerName: "virtflow-node-gateway.virtflow.svc",
		APIKeyFile:    token, NoWorkerHeartbeats: true,
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), 20*time.Second)
	defer cancel()
	c, err := o.Dial(ctx, zerolog.New(zerolog.NewTestWriter(d.t)), nil, "test")
	require.NoError(d.t, err, d.log())
	d.t.Cleanup(c.Close)
	return c
}

func (d *gateway) token(node string) (file string) {
	file = filepath.Join(d.dir, "token-"+node)
	d.write(file, node)
	return file
}

func (d *gateway) write(file, node string) {
	part := base64.RawURLEncoding.EncodeToString
	body := fmt.Sprintf(`{"aud":[%q],"sub":"system:serviceaccount:virtflow:virtflow-node-worker","exp":%d,"node":%q}`,
		gatewayAudience, time.Now().Add(time.Hour).Unix(), node)
	require.NoError(d.t, os.WriteFile(file, []byte(part([]byte("{}"))+"."+part([]byte(body))+"."+part([]byte("s"))),
		0o600))
}

func nodeOf(token string) string {
	var claims struct{ Node string }
	pieces := strings.Split(token, ".")
	if len(pieces) != 3 {
		return ""
	}
	b, err := base64.RawURLEncoding.DecodeString(pieces[1])
	if err != nil || json.Unmarshal(b, &claims) != nil {
		return ""
	}
	return claims.Node
}

// launcher creates the pod of a VMI on a node and returns its UID.
func (d *gateway) launcher(vmi, node string) string {
	d.t.Helper()
	pod, err := kube.Put(d.kube, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "virt-launcher-" + vmi,
			Labels: map[string]string{contract.LabelLauncher: contract.LabelLauncherValue,
				contract.LabelCreatedBy: "uid-of-" + vmi},
			Annotations: map[string]string{contract.AnnotationDomain: vmi},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance", Name: vmi,
				UID: types.UID("uid-of-" + vmi), Controller: new(true),
			}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "compute", Image: "x"}}},
	})
	require.NoError(d.t, err)
	require.NotEmpty(d.t, pod.UID)
	return string(pod.UID)
}
