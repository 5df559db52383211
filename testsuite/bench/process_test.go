package bench

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/internal/pki"
	"github.com/virtflow/virtflow/testsuite/kube"
)

const (
	own       = "virtflow" // namespace
	service   = "virtflow-api-server.virtflow.svc"
	startTime = time.Minute
)

// process is the deployed api-server program, with a Kubernetes API server in memory.
type process struct {
	pid  int
	url  string
	kube *kube.Server
	// webhooks is a client like Kubernetes' API server, proxy one with the certificate of the front proxy.
	webhooks, proxy *http.Client
}

// startProcess builds and starts the program, and waits until it is ready.
func startProcess(b testing.TB) *process {
	b.Helper()
	dir := b.TempDir()
	p := &process{kube: kube.New(kube.Options{Namespaces: []string{own}})}
	ca, err := pki.OpenAuthority(dir, "front proxy")
	require.NoError(b, err)
	require.NoError(b, ca.Ensure(pki.Request{Name: "proxy", CommonName: "front-proxy-client"}))
	for _, name := range []string{"virtflow-api-server-certificate", "virtflow-access", "virtflow-node-access"} {
		_, err := kube.Put(p.kube, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: name}})
		require.NoError(b, err)
	}
	pem, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	require.NoError(b, err)
	_, err = kube.Put(p.kube, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"},
		Data: map[string]string{
			"requestheader-client-ca-file": string(pem), "requestheader-allowed-names": `["front-proxy-client"]`,
			"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		},
	})
	require.NoError(b, err)
	web := httptest.NewServer(&cluster{kube: p.kube})
	b.Cleanup(func() { web.CloseClientConnections(); web.Close() })

	program := filepath.Join(dir, "api-server")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program,
		"github.com/virtflow/virtflow/cmd/api-server")
	out, err := build.CombinedOutput()
	require.NoError(b, err, "%s", out)
	config := filepath.Join(dir, "kubeconfig")
	require.NoError(b, os.WriteFile(config,
		fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"x","cluster":{"server":%q}}],"contexts":[{"name":"x","context":{"cluster":"x"}}]}`, web.URL), 0o600))
	port, health := freePort(b), freePort(b)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(b, err)
	defer log.Close()
	run := exec.Command(program, "--kubeconfig", config, "--namespace", own, "--port", strconv.Itoa(port),
		"--metrics-address", fmt.Sprintf("127.0.0.1:%d", health),
		"--temporal-address", fmt.Sprintf("127.0.0.1:%d", freePort(b)), "--temporal-namespace", "virtflow",
		"--temporal-plaintext")
	run.Stdout, run.Stderr = log, log
	require.NoError(b, run.Start())
	b.Cleanup(func() { _ = run.Process.Kill(); _ = run.Wait() })
	p.pid, p.url = run.Process.Pid, fmt.Sprintf("https://127.0.0.1:%d", port)
	ready := func() bool {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", health))
		if err != nil {
			return false
		}
		defer r.Body.Close()
		return r.StatusCode == http.StatusOK
	}
	for end := time.Now().Add(startTime); !ready(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			said, _ := os.ReadFile(log.Name())
			b.Fatalf("the api-server is not ready: %s", said)
		}
	}
	roots := x509.NewCertPool()
	require.True(b, roots.AppendCertsFromPEM(kube.Get[corev1.Secret](p.kube, own, "virtflow-api-server-certificate").
		Data["ca.crt"]))
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "proxy.crt"), filepath.Join(dir, "proxy.key"))
	require.NoError(b, err)
	client := func(certs ...tls.Certificate) *http.Client {
		return &http.Client{Timeout: startTime, Transport: &http.Transport{
			MaxIdleConnsPerHost: 16, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: service,
				MinVersion: tls.VersionTLS13, Certificates: certs},
		}}
	}
	p.webhooks, p.proxy = client(), client(pair)
	return p
}

func freePort(b testing.TB) int {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// post sends a review to a webhook.
func (p *process) post(path string, review []byte) error {
	r, err := p.webhooks.Post(p.url+path, "application/json", bytes.NewReader(review))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && (r.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(`"allowed":`))) {
		err = fmt.Errorf("%s: %d %.200s", path, r.StatusCode, text)
	}
	return err
}

// ask sends a user's request for a subresource, and returns its code.
func (p *process) ask(path string) (int, error) {
	r, err := http.NewRequest(http.MethodGet, p.url+path, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("X-Remote-User", "jane")
	r.Header.Set("X-Remote-Group", "system:authenticated")
	a, err := p.proxy.Do(r)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	_, err = io.Copy(io.Discard, a.Body)
	return a.StatusCode, err
}

// memory returns the resident memory of the process, now and its peak, in MB of 10⁶ bytes.
func (p *process) memory(b testing.TB) (now, most float64) {
	b.Helper()
	proc, err := procfs.NewProc(p.pid)
	require.NoError(b, err)
	status, err := proc.NewStatus()
	require.NoError(b, err)
	return float64(status.VmRSS) / 1e6, float64(status.VmHWM) / 1e6
}

// cpu returns the processor time of the process so far.
func (p *process) cpu(b testing.TB) time.Duration {
	b.Helper()
	proc, err := procfs.NewProc(p.pid)
	require.NoError(b, err)
	stat, err := proc.Stat()
	require.NoError(b, err)
	return time.Duration(stat.CPUTime() * float64(time.Second))
}

// cluster adds to the API server in memory what only this process calls: discovery, its own webhook configurations and
// APIServices, EndpointSlices, of which there are none, and access reviews, which permit everything.
type cluster struct{ kube *kube.Server }

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	list := func(apiVersion string, resources ...metav1.APIResource) any {
		return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: apiVersion, APIResources: resources}
	}
	const registration, services, authorization, discovery, kubevirt = "admissionregistration.k8s.io/v1",
		"apiregistration.k8s.io/v1", "authorization.k8s.io/v1", "discovery.k8s.io/v1", "kubevirt.io/v1"
	switch path := strings.TrimSuffix(r.URL.Path, "/"); path {
	case "/api":
		answer(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case "/apis":
		groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, g := range []string{registration, services, authorization, discovery, kubevirt} {
			name, version, _ := strings.Cut(g, "/")
			v := metav1.GroupVersionForDiscovery{GroupVersion: g, Version: version}
			groups.Groups = append(groups.Groups,
				metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		}
		answer(w, groups)
	case "/api/v1":
		answer(w, list("v1", metav1.APIResource{Name: "secrets", Kind: "Secret", Namespaced: true},
			metav1.APIResource{Name: "configmaps", Kind: "ConfigMap",
				Namespaced: true}, metav1.APIResource{Name: "pods", Kind: "Pod", Namespaced: true}))
	case "/apis/" + registration:
		answer(w, list(registration,
			metav1.APIResource{Name: "mutatingwebhookconfigurations", Kind: "MutatingWebhookConfiguration"},
			metav1.APIResource{Name: "validatingwebhookconfigurations", Kind: "ValidatingWebhookConfiguration"}))
	case "/apis/" + services:
		answer(w, list(services, metav1.APIResource{Name: "apiservices", Kind: "APIService"}))
	case "/apis/" + authorization:
		answer(w, list(authorization, metav1.APIResource{Name: "subjectaccessreviews", Kind: "SubjectAccessReview"}))
	case "/apis/" + discovery:
		answer(w, list(discovery, metav1.APIResource{Name: "endpointslices", Kind: "EndpointSlice", Namespaced: true}))
	case "/apis/" + kubevirt:
		answer(w, list(kubevirt, metav1.APIResource{Name: "kubevirts", Kind: "KubeVirt", Namespaced: true},
			metav1.APIResource{Name: "virtualmachines", Kind: "VirtualMachine", Namespaced: true},
			metav1.APIResource{Name: "virtualmachineinstances", Kind: "VirtualMachineInstance", Namespaced: true}))
	case "/apis/" + authorization + "/subjectaccessreviews":
		w.WriteHeader(http.StatusCreated)
		answer(w, authorizationv1.SubjectAccessReview{
			TypeMeta: metav1.TypeMeta{Kind: "SubjectAccessReview", APIVersion: authorization},
			Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		})
	default:
		for _, f := range []fixed{
			{registration, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", []string{"virtflow"}},
			{registration, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", []string{"virtflow"}},
			{services, "apiservices", "APIService",
				[]string{"v1.subresources.kubevirt.io", "v1alpha3.subresources.kubevirt.io"}},
			{discovery, "namespaces/default/endpointslices", "EndpointSlice", nil},
		} {
			if rest, ok := strings.CutPrefix(path, "/apis/"+f.version+"/"+f.resource); ok {
				f.serve(w, r, strings.TrimPrefix(rest, "/"))
				return
			}
		}
		c.kube.ServeHTTP(w, r)
	}
}

func answer(w http.ResponseWriter, o any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o)
}

// fixed are objects of one kind that never change, whatever is written.
type fixed struct {
	version, resource, kind string
	names                   []string
}

func (f fixed) object(name string) map[string]any {
	return map[string]any{"apiVersion": f.version, "kind": f.kind,
		"metadata": map[string]any{"name": name, "uid": name, "resourceVersion": "1"}}
}

func (f fixed) serve(w http.ResponseWriter, r *http.Request, name string) {
	if name != "" {
		answer(w, f.object(name))
		return
	}
	if r.URL.Query().Get("watch") == "" {
		items := make([]any, len(f.names))
		for i, n := range f.names {
			items[i] = f.object(n)
		}
		answer(w, map[string]any{"apiVersion": f.version, "kind": f.kind + "List",
			"metadata": map[string]any{"resourceVersion": "1"}, "items": items})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, n := range f.names {
			answer(w, map[string]any{"type": "ADDED", "object": f.object(n)})
		}
		mark := f.object("")
		mark["metadata"] = map[string]any{"resourceVersion": "1",
			"annotations": map[string]any{metav1.InitialEventsAnnotationKey: "true"}}
		answer(w, map[string]any{"type": "BOOKMARK", "object": mark})
	}
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}
