//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

const gatewayDeployment = "deployment/virtflow-node-gateway"

// forwarded returns a local address that leads to a port of a pod.
func forwarded(t *testing.T, target, port string) string {
	t.Helper()
	cmd := exec.Command("kubectl", "-n", "virtflow", "port-forward", target, ":"+port)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	found := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	require.NotEmpty(t, found, line)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return found
}

// gatewayClient connects to the deployed node gateway, as a process on a node does.
type gatewayClient struct {
	t       *testing.T
	address string
	metrics string
	roots   *x509.CertPool
	opened  map[string]workflowservice.WorkflowServiceClient
}

func dialGateway(t *testing.T) *gatewayClient {
	t.Helper()
	d := &gatewayClient{t: t, address: forwarded(t, gatewayDeployment, "7233"),
		metrics: forwarded(t, gatewayDeployment, "8080"),
		roots:   x509.NewCertPool(),
		opened:  map[string]workflowservice.WorkflowServiceClient{}}
	require.True(t, d.roots.AppendCertsFromPEM(
		[]byte(kubectl(t, "-n", "virtflow", "get", "configmap", "virtflow-node-gateway-ca", "-o",
			`jsonpath={.data.ca\.crt}`))))
	return d
}

// as returns a client that shows a token; "": none. All clients come from one address, which may open only a limited
// number of connections.
func (d *gatewayClient) as(token string) workflowservice.WorkflowServiceClient {
	if known, ok := d.opened[token]; ok {
		return known
	}
	c, err := grpc.NewClient(d.address,
		grpc.WithTransportCredentials(
			credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: d.roots,
				ServerName: "virtflow-node-gateway.virtflow.svc"})),
		grpc.WithUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker,
				opts ...grpc.CallOption) error {
				if token != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
				}
				ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
				defer cancel()
				return next(ctx, method, req, reply, cc, opts...)
			}))
	require.NoError(d.t, err)
	d.t.Cleanup(func() { c.Close() })
	d.opened[token] = workflowservice.NewWorkflowServiceClient(c)
	return d.opened[token]
}

// metricSum returns the sum of a metric over the series with these label values.
func (d *gatewayClient) metricSum(name string, labels ...string) float64 {
	d.t.Helper()
	r, err := http.Get("http://" + d.metrics + "/metrics")
	require.NoError(d.t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(d.t, err)
	var sum float64
lines:
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, name+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(line, l) {
				continue lines
			}
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
		require.NoError(d.t, err)
		sum += v
	}
	return sum
}

func token(t *testing.T, account string, more ...string) string {
	t.Helper()
	return strings.TrimSpace(kubectl(t, append([]string{"-n", "virtflow", "create", "token", account}, more...)...))
}

// workerOf returns the name of the node worker's pod on a node.
func workerOf(t *testing.T, node string) string {
	t.Helper()
	return strings.TrimSpace(
		kubectl(t, "-n", "virtflow", "get", "pods", "-l", "app.kubernetes.io/name=virtflow-node-worker",
			"--field-selector", "spec.nodeName="+node, "-o", "jsonpath={.items[0].metadata.name}"))
}

// TestNodeGateway: a VM has booted through the gateway; then real tokens of every kind make calls that they must not
// make.
func TestNodeGateway(t *testing.T) {
	m := newMachine(t, "guarded", "Always", "")
	vmi := m.untilBooted()
	here, there := vmi.Status.NodeName, ""
	for _, n := range strings.Fields(strings.ReplaceAll(kubectl(t, "get", "nodes", "-o", "name"), "node/", "")) {
		if n != here {
			there = n
		}
	}
	require.NotEmpty(t, there)
	d := dialGateway(t)
	require.Positive(t, d.metricSum("virtflow_gateway_passed_total", `method="PollActivityTaskQueue"`))
	require.Positive(t, d.metricSum("virtflow_gateway_passed_total", `method="RespondActivityTaskCompleted"`,
		`code="OK"`))

	const audience = "--audience=virtflow-node-gateway"
	ofPod := token(t, "virtflow-node-worker", audience, "--bound-object-kind=Pod",
		"--bound-object-name="+workerOf(t, here))
	ofNode := token(t, "virtflow-node-worker", audience, "--bound-object-kind=Node", "--bound-object-name="+here)
	ofOther := token(t, "virtflow-node-worker", audience, "--bound-object-kind=Pod",
		"--bound-object-name="+workerOf(t, there))
	for _, good := range []string{ofPod, ofNode, ofOther} {
		_, err := d.as(good).GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
		require.NoError(t, err)
	}

	namespace := os.Getenv("TEMPORAL_NAMESPACE")
	id := contract.VMIID(m.namespace, m.name)
	pod := strings.TrimSpace(m.kubectl("get", "pod", m.pod(), "-o", "jsonpath={.metadata.uid}"))
	signal := func(ns, name, data string) func(workflowservice.WorkflowServiceClient) error {
		return func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.SignalWorkflowExecution(t.Context(), &workflowservice.SignalWorkflowExecutionRequest{
				Namespace: ns, WorkflowExecution: &common.WorkflowExecution{WorkflowId: id}, SignalName: name,
				Input: &common.Payloads{Payloads: []*common.Payload{
					{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(data)}}},
			})
			return err
		}
	}
	domain := func(extra string) string { return fmt.Sprintf(`{"podUID":%q,"sequence":0%s}`, pod, extra) }
	info := func(c workflowservice.WorkflowServiceClient) error {
		_, err := c.GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
		return err
	}
	poll := func(queue string) func(workflowservice.WorkflowServiceClient) error {
		return func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.PollActivityTaskQueue(t.Context(),
				&workflowservice.PollActivityTaskQueueRequest{Namespace: namespace,
					TaskQueue: &taskqueue.TaskQueue{Name: queue}})
			return err
		}
	}
	require.NoError(t, signal(namespace, contract.SignalObserveDomain, domain(""))(d.as(ofPod)),
		"an observation as old as that changes nothing, but is permitted")

	gone := m.tokenOfDeletedPod()
	for name, c := range map[string]struct {
		token  string
		do     func(workflowservice.WorkflowServiceClient) error
		code   codes.Code
		reason string
	}{
		"no token":                {"", info, codes.Unauthenticated, "no-token"},
		"a token that is made up": {"a.e30.c", info, codes.Unauthenticated, "wrong-audience"},
		"a token that was changed": {ofPod[:len(ofPod)-8] + "AAAAAAAA", info, codes.Unauthenticated,
			"bad-token"},
		"a token for the API server": {
			token(t, "virtflow-node-worker", "--bound-object-kind=Pod", "--bound-object-name="+workerOf(t, here)), info,
			codes.Unauthenticated, "wrong-audience"},
		"a token that is bound to nothing": {token(t, "virtflow-node-worker", audience), info, codes.PermissionDenied,
			"no-node"},
		"crdwatch's token": {token(t, "virtflow-crdwatch", audience), info, codes.PermissionDenied,
			"wrong-account"},
		"the token of a pod that is gone": {gone, info, codes.Unauthenticated, "bad-token"},
		"a signal to a VMI elsewhere": {ofOther, signal(namespace, contract.SignalObserveDomain, domain("")),
			codes.PermissionDenied, "workflow"},
		"another namespace": {ofPod, signal("default", contract.SignalObserveDomain, domain("")),
			codes.PermissionDenied, "namespace"},
		"another signal": {ofPod, signal(namespace, contract.SignalObservePod, domain("")),
			codes.PermissionDenied, "signal"},
		"an oversized payload": {ofPod,
			signal(namespace, contract.SignalObserveDomain, domain(`,"reason":"`+strings.Repeat("x", 300<<10)+`"`)),
			codes.ResourceExhausted, "too-large"},
		"another node's queue": {ofPod, poll(contract.NodeTaskQueue(there)), codes.PermissionDenied,
			"task-queue"},
		"another node's token": {ofOther, poll(contract.NodeTaskQueue(here)), codes.PermissionDenied,
			"task-queue"},
		"the control queue": {ofNode, poll(contract.ControlTaskQueue), codes.PermissionDenied,
			"task-queue"},
		"a workflow start": {ofPod, func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.StartWorkflowExecution(t.Context(), &workflowservice.StartWorkflowExecutionRequest{
				Namespace: namespace, WorkflowId: "vm/" + m.namespace + "/mine",
				WorkflowType: &common.WorkflowType{Name: contract.WorkflowVM},
				TaskQueue:    &taskqueue.TaskQueue{Name: contract.ControlTaskQueue},
			})
			return err
		}, codes.PermissionDenied, "method"},
		"a query": {ofPod, func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.QueryWorkflow(t.Context(),
				&workflowservice.QueryWorkflowRequest{Namespace: namespace,
					Execution: &common.WorkflowExecution{WorkflowId: id}})
			return err
		}, codes.PermissionDenied, "method"},
		"a terminate": {ofPod, func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.TerminateWorkflowExecution(t.Context(),
				&workflowservice.TerminateWorkflowExecutionRequest{Namespace: namespace,
					WorkflowExecution: &common.WorkflowExecution{WorkflowId: id}})
			return err
		}, codes.PermissionDenied, "method"},
		"a task that it was not given": {ofPod, func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.RespondActivityTaskCompleted(t.Context(),
				&workflowservice.RespondActivityTaskCompletedRequest{Namespace: namespace,
					TaskToken: []byte("some other node's")})
			return err
		}, codes.PermissionDenied, "task-token"},
	} {
		t.Run(name, func(t *testing.T) {
			before := d.metricSum("virtflow_gateway_refused_total", `reason="`+c.reason+`"`)
			err := c.do(d.as(c.token))
			require.Equal(t, c.code, status.Code(err), "%v", err)
			require.Greater(t, d.metricSum("virtflow_gateway_refused_total", `reason="`+c.reason+`"`), before,
				"it is not counted")
		})
	}
	now, err := m.vmi()
	require.NoError(t, err)
	require.Equal(t, "Running", string(now.Status.Phase))
	require.Len(t, m.domains(), 1)
	m.remove()
}

// tokenOfDeletedPod creates a pod of the node workers' account and a token that is bound to it, and deletes the pod.
func (m *machine) tokenOfDeletedPod() string {
	m.t.Helper()
	pod := fmt.Sprintf("short-lived-%d", time.Now().UnixMilli()%100000)
	apply(m.t, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: virtflow}, spec: {serviceAccountName: virtflow-node-worker,
  nodeName: %s, terminationGracePeriodSeconds: 0, containers: [{name: c, image: none, imagePullPolicy: Never}]}}`, pod, strings.Fields(kubectl(m.t, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))[0]))
	out := token(m.t, "virtflow-node-worker", "--audience=virtflow-node-gateway", "--bound-object-kind=Pod",
		"--bound-object-name="+pod)
	kubectl(m.t, "-n", "virtflow", "delete", "pod", pod, "--timeout=60s")
	return out
}

// TestNodeWorkerCannotReachTemporal: the credentials in its pod do not open Temporal.
func TestNodeWorkerCannotReachTemporal(t *testing.T) {
	spec := kubectl(t, "-n", "virtflow", "get", "daemonset", "virtflow-node-worker", "-o",
		"jsonpath={.spec.template.spec}")
	require.NotContains(t, spec, "virtflow-temporal-tls")
	require.NotContains(t, spec, `"envFrom"`)
	for _, verb := range [][]string{{"get", "secrets", "-n", "virtflow"}, {"list", "pods", "-A"},
		{"create", "pods", "-n", "virtflow"}, {"patch", "nodes"}} {
		out, err := try(append([]string{"auth", "can-i", "--as=system:serviceaccount:virtflow:virtflow-node-worker"},
			verb...)...)
		require.Error(t, err, "%v", verb)
		require.Contains(t, out, "no")
	}
	// Temporal asks for a certificate of its own CA before it reads any request.
	pem, err := os.ReadFile(os.Getenv("TEMPORAL_TLS_CA"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(pem))
	c, err := grpc.NewClient(os.Getenv("TEMPORAL_ADDRESS"),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: os.Getenv("TEMPORAL_TLS_SERVER_NAME"),
		})))
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = workflowservice.NewWorkflowServiceClient(c).GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
}

// TestNodePolicy: the real API server restricts what the control worker may patch of a node.
func TestNodePolicy(t *testing.T) {
	node := strings.Fields(kubectl(t, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))[0]
	patch := func(p string) error {
		_, err := try("--as=system:serviceaccount:virtflow:virtflow-control-worker", "patch", "node", node,
			"--type=merge", "--dry-run=server", "-p", p)
		return err
	}
	for _, allowed := range []string{
		`{"metadata":{"labels":{"kubevirt.io/schedulable":"false"}}}`,
		`{"metadata":{"labels":{"virtflow.io/virt-type":null}}}`,
		`{"metadata":{"labels":{"cpu-model.node.kubevirt.io/Nehalem":"true","machine-type.node.kubevirt.io/q35":"true"}}}`,
		`{"metadata":{"annotations":{"virtflow.io/x":"y"}}}`,
	} {
		require.NoError(t, patch(allowed), allowed)
	}
	for _, denied := range []string{
		`{"metadata":{"labels":{"kubernetes.io/hostname":"other"}}}`,
		`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`,
		`{"metadata":{"labels":{"kubernetes.io/hostname":null}}}`, `{"metadata":{"annotations":{"example.com/x":"y"}}}`,
		`{"spec":{"unschedulable":true}}`, `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`,
		`{"metadata":{"finalizers":["virtflow.io/x"]}}`,
	} {
		require.ErrorContains(t, patch(denied), "virtflow-nodes", denied)
	}
}

// TestControlWorkerPolicies: the real API server permits the control worker to write only virtflow's own pods and
// Secrets. testsuite/manifests tests which these are.
func TestControlWorkerPolicies(t *testing.T) {
	const worker = "--as=system:serviceaccount:virtflow:virtflow-control-worker"
	server := strings.Fields(
		kubectl(t, "-n", "virtflow", "get", "pods", "-l", "app.kubernetes.io/name=virtflow-api-server", "-o",
			"name"))[0]
	for _, args := range [][]string{
		{"delete", server, "--dry-run=server"},
		{"patch", server, "--dry-run=server", "-p", `{"metadata":{"labels":{"kubevirt.io":"virt-launcher"}}}`},
		{"run", "shell", "--image=busybox", "--dry-run=server"},
	} {
		_, err := try(append([]string{worker, "-n", "virtflow"}, args...)...)
		require.ErrorContains(t, err, "virtflow-control-worker-pods", args)
	}
	// kubectl reads a status before it patches it, which the control worker is not permitted to do; testsuite/manifests
	// tests that rule itself.
	_, err := try(worker, "-n", "virtflow", "create", "secret", "generic", "mine", "--from-literal=a=b",
		"--dry-run=server")
	require.ErrorContains(t, err, "virtflow-control-worker-secrets")
}

// TestRefusesForgedLaunchers: no one else can add, or remove, any of the marks that identify a launcher's pod.
func TestRefusesForgedLaunchers(t *testing.T) {
	suite.TakeTurn(t, 5)
	m := newMachine(t, "genuine", "Always", "")
	m.untilBooted()
	pod := func(name string, metadata map[string]any) string {
		metadata["name"], metadata["namespace"] = name, m.namespace
		b, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
			"spec": map[string]any{
				"securityContext": map[string]any{"runAsNonRoot": true, "runAsUser": 107,
					"seccompProfile": map[string]any{"type": "RuntimeDefault"}},
				"containers": []any{map[string]any{"name": "compute", "image": "none", "imagePullPolicy": "Never",
					"securityContext": map[string]any{
						"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []string{"ALL"}},
					}}},
			}})
		require.NoError(t, err)
		return string(b)
	}
	marks := map[string]map[string]any{
		"the label":      {"labels": map[string]string{contract.LabelLauncher: contract.LabelLauncherValue}},
		"the annotation": {"annotations": map[string]string{contract.AnnotationVMISpec: "{}"}},
		"the finalizer":  {"finalizers": []string{contract.FinalizerPod}},
	}
	plain := pod("plain", map[string]any{})
	apply(t, plain)
	for name, mark := range marks {
		b, err := json.Marshal(map[string]any{"metadata": mark})
		require.NoError(t, err)
		_, err = try("-n", m.namespace, "patch", "pod", "plain", "--type=merge", "-p", string(b))
		require.ErrorContains(t, err, "virtflow-launcher-pods", name)
		_, err = tryWith(pod("impostor", mark), "create", "-f", "-")
		require.ErrorContains(t, err, "virtflow-launcher-pods", name)
	}
	for _, p := range []string{`{"metadata":{"finalizers":null}}`, `{"metadata":{"labels":{"kubevirt.io":null}}}`,
		`{"metadata":{"annotations":{"kubevirt.io/domain":"other"}}}`} {
		_, err := try("-n", m.namespace, "patch", "pod", m.pod(), "--type=merge", "-p", p)
		require.ErrorContains(t, err, "virtflow-launcher-pods", p)
	}
	// No one else can create the Secret from which a launcher's guest takes cloud-init data.
	_, err := try("-n", m.namespace, "create", "secret", "generic", m.pod()+"-cloud-init")
	require.ErrorContains(t, err, "virtflow-launcher-secrets")
	// The marks cannot be added through a subresource either. Other writes of a pod's status, such as those of a
	// network plugin, are not virtflow's concern.
	for name, mark := range marks {
		delete(mark, "name") // of the forged pod
		b, err := json.Marshal(map[string]any{"metadata": mark})
		require.NoError(t, err)
		_, err = try("-n", m.namespace, "patch", "pod", "plain", "--subresource=status", "--type=merge", "-p",
			string(b))
		require.ErrorContains(t, err, "virtflow-launcher-pods", name)
	}
	for _, p := range []string{
		`{"metadata":{"finalizers":null}}`, `{"metadata":{"labels":{"kubevirt.io":null}}}`,
		`{"metadata":{"labels":{"kubevirt.io/created-by":"other"}}}`,
		`{"metadata":{"annotations":{"kubevirt.io/domain":"other"}}}`,
		`{"metadata":{"annotations":{"virtflow.io/vmi":null}}}`,
	} {
		_, err := try("-n", m.namespace, "patch", "pod", m.pod(), "--subresource=status", "--type=merge", "-p", p)
		require.ErrorContains(t, err, "virtflow-launcher-pods", p)
	}
	m.kubectl("patch", "pod", m.pod(), "--subresource=status", "--type=merge", "-p",
		`{"metadata":{"annotations":{"cni.example.com/address":"10.0.0.1"}}}`)
	m.kubectl("patch", "pod", m.pod(), "--subresource=status", "--type=strategic", "-p",
		`{"status":{"conditions":[{"type":"example.com/seen","status":"True"}]}}`)
	_, err = try("-n", m.namespace, "patch", "pod", m.pod(), "--subresource=resize", "--type=strategic", "-p",
		`{"spec":{"containers":[{"name":"compute","resources":{"limits":{"memory":"9Gi"}}}]}}`)
	require.ErrorContains(t, err, "virtflow-launcher-pods")
	_, err = try("-n", m.namespace, "debug", m.pod(), "--image=none", "--profile=restricted", "--attach=false")
	require.ErrorContains(t, err, "virtflow-launcher-pods")
	for _, url := range []string{"/pods/plain/binding", "/bindings"} {
		_, err = tryWith(fmt.Sprintf(`{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "plain", "namespace": %q, "annotations": {"virtflow.io/vmi": "{}"}},
			"target": {"apiVersion": "v1", "kind": "Node", "name": "none"}}`, m.namespace), "create", "--raw", "/api/v1/namespaces/"+m.namespace+url, "-f", "-")
		require.ErrorContains(t, err, "virtflow-launcher-pods", url)
	}
	// Nor through one of Kubernetes' own controllers.
	apply(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: many, namespace: %s}, spec: {replicas: 1, selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b, kubevirt.io: virt-launcher}},
  spec: {securityContext: {runAsNonRoot: true, runAsUser: 107, seccompProfile: {type: RuntimeDefault}},
  containers: [{name: c, image: none, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}}}`, m.namespace))
	until(t, time.Minute, "the ReplicaSet is refused its pod", func() error {
		out, err := try("-n", m.namespace, "get", "replicaset", "many", "-o",
			`jsonpath={.status.conditions[?(@.type=="ReplicaFailure")].message}`)
		if err != nil || !strings.Contains(out, "virtflow-launcher-pods") {
			return fmt.Errorf("its condition is %q: %w", out, err)
		}
		return nil
	})
	m.remove()
}
