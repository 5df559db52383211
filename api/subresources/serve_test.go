package subresources_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/virtflow/virtflow/api/subresources"
	"github.com/virtflow/virtflow/api/subresources/streams"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// authority signs clients' certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

func (a *authority) client(t *testing.T, name string, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// entities records its calls, and answers as the test sets.
type entities struct {
	asked []contract.InstanceRequest
	ids   []string
	err   error
}

func (e *entities) Operate(_ context.Context, _, _, id string, o contract.InstanceRequest) error {
	e.asked, e.ids = append(e.asked, o), append(e.ids, id)
	return e.err
}

// rig is the API over HTTPS, before an API server in memory.
type rig struct {
	*entities
	t       *testing.T
	kube    *kube.Server
	client  client.Client
	server  *httptest.Server
	ca      *authority
	proxy   tls.Certificate
	reviews []authorizationv1.SubjectAccessReviewSpec
	// turnedAway are the codes of the requests that were rejected.
	turnedAway []int
	allow      func(authorizationv1.SubjectAccessReviewSpec) bool
	// denied is the reason for which the API server refuses to create; "": it does not.
	denied string
	// cluster has the settings.
	cluster defaults.Cluster
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, entities: &entities{}, kube: kube.New(kube.Options{}), ca: newAuthority(t)}
	r.allow = func(authorizationv1.SubjectAccessReviewSpec) bool { return true }
	r.proxy = r.ca.client(t, "front-proxy-client", nil)
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, authorizationv1.AddToScheme,
		kubevirtv1.AddToScheme} {
		require.NoError(t, add(s))
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"),
		kubevirtv1.VirtualMachineGroupVersionKind, kubevirtv1.VirtualMachineInstanceGroupVersionKind,
		kubevirtv1.VirtualMachineInstanceMigrationGroupVersionKind,
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	real, err := client.NewWithWatch(r.kube.Config(), client.Options{Scheme: s, Mapper: mapper})
	require.NoError(t, err)
	r.client = interceptor.NewClient(real, interceptor.Funcs{
		// The server in memory has no dry run.
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			options ...client.PatchOption) error {
			if applied := (&client.PatchOptions{}).ApplyOptions(options); len(applied.DryRun) > 0 {
				return nil
			}
			return c.Patch(ctx, o, p, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			options ...client.SubResourcePatchOption) error {
			if applied := (&client.SubResourcePatchOptions{}).ApplyOptions(options); len(applied.DryRun) > 0 {
				return nil
			}
			return c.SubResource(sub).Patch(ctx, o, p, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			review, ok := o.(*authorizationv1.SubjectAccessReview)
			switch applied := (&client.CreateOptions{}).ApplyOptions(options); {
			case ok:
			case r.denied != "":
				return apierrors.NewForbidden(schema.GroupResource{Resource: "some"}, "one", errors.New(r.denied))
			case len(applied.DryRun) > 0:
				return nil
			default:
				return c.Create(ctx, o, options...)
			}
			r.reviews = append(r.reviews, review.Spec)
			review.Status.Allowed = r.allow(review.Spec)
			if !review.Status.Allowed {
				review.Status.Reason = "no role says so"
			}
			return nil
		},
	})
	require.NoError(t, r.client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"},
		Data: map[string]string{
			"requestheader-client-ca-file": r.ca.pem, "requestheader-allowed-names": `["front-proxy-client"]`,
			"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		},
	}))
	toGuests := streams.New(streams.Options{
		Log: zerolog.Nop(), Lookup: subresources.Lookup{Reader: r.client},
		Nodes: &streams.Nodes{Reader: r.client, Namespace: "virtflow", Label: "none"},
	})
	t.Cleanup(toGuests.Close)
	service, err := subresources.New(subresources.Options{
		Reader: r.client, Client: r.client, FrontProxy: r.client, Entities: r.entities, Version: "v0",
		Log:     zerolog.Nop(),
		Refused: func(code int) { r.turnedAway = append(r.turnedAway, code) },
		Streams: toGuests.Handlers(),
		Cluster: func(context.Context) (defaults.Cluster, error) { return r.cluster, nil },
	})
	require.NoError(t, err)
	r.server = httptest.NewUnstartedServer(service)
	r.server.TLS = &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequestClientCert}
	r.server.StartTLS()
	t.Cleanup(r.server.Close)
	return r
}

// answer is the response.
type answer struct {
	code   int
	kind   string // of the content
	body   string
	status metav1.Status
	again  string // Retry-After
}

const base = "/apis/subresources.kubevirt.io/v1/namespaces/default/"

// send makes a request with a certificate (nil: none) and headers.
func (r *rig) send(cert *tls.Certificate, headers http.Header, method, path, body string) answer {
	r.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(r.server.Certificate())
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	defer c.CloseIdleConnections()
	if !strings.HasPrefix(path, "/") {
		path = base + path
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header = headers.Clone()
	resp, err := c.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	require.Equal(r.t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
	a := answer{code: resp.StatusCode, again: resp.Header.Get("Retry-After"), kind: resp.Header.Get("Content-Type"),
		body: string(content)}
	if a.kind == "application/json" && a.code >= 400 {
		_ = json.Unmarshal(content, &a.status)
	}
	return a
}

func jane() http.Header {
	return http.Header{"X-Remote-User": {"jane"}, "X-Remote-Group": {"devs", "system:authenticated"},
		"X-Remote-Extra-Scopes%2fA": {"s"}}
}

// do makes a request as the front proxy does for jane.
func (r *rig) do(method, path, body string) answer {
	r.t.Helper()
	return r.send(&r.proxy, jane(), method, path, body)
}

func (r *rig) vm(name string, strategy kubevirtv1.VirtualMachineRunStrategy, change func(*kubevirtv1.VirtualMachine)) {
	r.t.Helper()
	vm := &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       kubevirtv1.VirtualMachineSpec{Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{}},
	}
	if strategy != "" {
		vm.Spec.RunStrategy = &strategy
	}
	if change != nil {
		change(vm)
	}
	status := vm.Status
	require.NoError(r.t, r.client.Create(r.t.Context(), vm))
	vm.Status = status
	require.NoError(r.t, r.client.Status().Update(r.t.Context(), vm))
}

// disown leaves an instance only the name of its VM.
func disown(vmi *kubevirtv1.VirtualMachineInstance) { vmi.OwnerReferences = nil }

// vmi makes an instance, of the VM of its name where there is one.
func (r *rig) vmi(
	name string, phase kubevirtv1.VirtualMachineInstancePhase, change func(*kubevirtv1.VirtualMachineInstance),
) {
	r.t.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Status:     kubevirtv1.VirtualMachineInstanceStatus{Phase: phase},
	}
	vm := &kubevirtv1.VirtualMachine{}
	if r.client.Get(r.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, vm) == nil {
		vmi.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(vm, kubevirtv1.VirtualMachineGroupVersionKind)}
	}
	if change != nil {
		change(vmi)
	}
	require.NoError(r.t, r.client.Create(r.t.Context(), vmi))
}

func (r *rig) getVM(name string) *kubevirtv1.VirtualMachine {
	r.t.Helper()
	vm := &kubevirtv1.VirtualMachine{}
	require.NoError(r.t, r.client.Get(r.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, vm))
	return vm
}

func (r *rig) getVMI(name string) *kubevirtv1.VirtualMachineInstance {
	r.t.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{}
	require.NoError(r.t, r.client.Get(r.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, vmi))
	return vmi
}
