package subresources_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/api/subresources"
)

// TestTrustsOnlyFrontProxy: headers without its certificate are ignored.
func TestTrustsOnlyFrontProxy(t *testing.T) {
	r := newRig(t)
	r.vm("web", kubevirtv1.RunStrategyHalted, nil)
	other := newAuthority(t).client(t, "front-proxy-client", nil)
	misnamed := r.ca.client(t, "kube-scheduler", nil)
	server := r.ca.client(t, "front-proxy-client", func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	expired := r.ca.client(t, "front-proxy-client", func(c *x509.Certificate) {
		c.NotAfter = time.Now().Add(-time.Minute)
	})
	root := http.Header{"X-Remote-User": {"system:admin"}, "X-Remote-Group": {"system:masters"}}
	const path = "virtualmachines/web/start"
	require.Equal(t, answer{code: 401, kind: "text/plain; charset=utf-8", body: "request is not authenticated"},
		r.send(nil, root, "PUT", path, ""))
	for name, cert := range map[string]*tls.Certificate{"other CA": &other, "name": &misnamed, "usage": &server,
		"expired": &expired} {
		a := r.send(cert, root, "PUT", path, "")
		require.Equal(t, 401, a.code, name)
	}
	a := r.send(&r.proxy, http.Header{"X-Remote-Group": {"devs"}}, "PUT", path, "")
	require.Equal(t, answer{code: 401, kind: "text/plain; charset=utf-8",
		body: "a valid user header is required for authorization"}, a)
	a = r.send(&r.proxy, http.Header{"X-Remote-User": {"jane"}}, "PUT", path, "")
	require.Equal(t, "a valid group header is required for authorization", a.body)
	require.Empty(t, r.reviews, "RBAC is not asked about unauthenticated callers")
	require.Equal(t, []int{401, 401, 401, 401, 401, 401, 401}, r.turnedAway, "each is counted")
	require.Equal(t, kubevirtv1.RunStrategyHalted, *r.getVM("web").Spec.RunStrategy)
	require.Equal(t, 202, r.do("PUT", path, "").code)
}

// TestFollowsFrontProxyCA: it is replaced while the process runs.
func TestFollowsFrontProxyCA(t *testing.T) {
	r := newRig(t)
	r.vm("web", kubevirtv1.RunStrategyHalted, nil)
	const path = "virtualmachines/web/expand-spec"
	require.Equal(t, 200, r.do("GET", path, "").code)
	next := newAuthority(t)
	config := &corev1.ConfigMap{}
	require.NoError(t, r.client.Get(t.Context(), subresources.FrontProxyConfig, config))
	config.Data["requestheader-client-ca-file"] = next.pem
	require.NoError(t, r.client.Update(t.Context(), config))
	require.Equal(t, 401, r.do("GET", path, "").code)
	r.proxy = next.client(t, "front-proxy-client", nil)
	require.Equal(t, 200, r.do("GET", path, "").code)
	config.Data["requestheader-client-ca-file"] = ""
	require.NoError(t, r.client.Update(t.Context(), config))
	require.Equal(t, 503, r.do("GET", path, "").code, "without a CA no caller can be authenticated")
}

// TestAccessReviews: RBAC is asked about the whole path of the subresource, and nothing beyond it.
func TestAccessReviews(t *testing.T) {
	r := newRig(t)
	r.allow = func(authorizationv1.SubjectAccessReviewSpec) bool { return false }
	for path, want := range map[string]authorizationv1.ResourceAttributes{
		"PUT virtualmachines/web/start": {Resource: "virtualmachines", Name: "web",
			Subresource: "start", Verb: "update"},
		"PUT virtualmachines/web/evacuate/cancel": {Resource: "virtualmachines", Name: "web",
			Subresource: "evacuate/cancel", Verb: "update"},
		"GET virtualmachineinstances/web/vnc": {Resource: "virtualmachineinstances", Name: "web",
			Subresource: "vnc", Verb: "get"},
		"GET virtualmachineinstances/web/vnc/screenshot": {Resource: "virtualmachineinstances", Name: "web",
			Subresource: "vnc/screenshot", Verb: "get"},
		"GET virtualmachineinstances/web/portforward/22": {Resource: "virtualmachineinstances", Name: "web",
			Subresource: "portforward", Verb: "get"},
		"GET virtualmachines/web/portforward/22/udp": {Resource: "virtualmachines", Name: "web",
			Subresource: "portforward", Verb: "get"},
		"PUT expand-vm-spec": {Resource: "expand-vm-spec", Verb: "update"},
		"GET virtualmachines/web/no/such/thing": {Resource: "virtualmachines", Name: "web",
			Subresource: "no/such/thing", Verb: "get"},
		"DELETE virtualmachines/web/start": {Resource: "virtualmachines", Name: "web",
			Subresource: "start", Verb: "delete"},
		"POST virtualmachineinstances/web/console": {Resource: "virtualmachineinstances", Name: "web",
			Subresource: "console", Verb: "create"},
		"GET virtualmachineinstances/web/portforward": {Resource: "virtualmachineinstances", Name: "web",
			Subresource: "portforward", Verb: "get"},
		"GET virtualmachineinstances/web/vnc/..%2Fconsole": {Resource: "virtualmachineinstances", Name: "web",
			Subresource: "vnc/../console", Verb: "get"},
	} {
		method, rest, _ := strings.Cut(path, " ")
		r.reviews = nil
		a := r.do(method, rest, "")
		require.Equal(t, 401, a.code, path)
		require.Equal(t, "no role says so", a.body, path)
		want.Group, want.Version, want.Namespace = "subresources.kubevirt.io", "v1", "default"
		require.Len(t, r.reviews, 1, path)
		require.Equal(t, want, *r.reviews[0].ResourceAttributes, path)
		require.Equal(t, "jane", r.reviews[0].User)
		require.Equal(t, []string{"devs", "system:authenticated"}, r.reviews[0].Groups)
		require.Equal(t, map[string]authorizationv1.ExtraValue{"scopes/a": {"s"}}, r.reviews[0].Extra)
	}
	require.Empty(t, r.asked)
}

// TestUnknownPathsAreDenied: an unknown path is denied before an access review, or answered with 404 to users who are
// authorized.
func TestUnknownPathsAreDenied(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{
		"/apis/subresources.kubevirt.io/v2/namespaces/default/virtualmachines/web/start",
		"/apis/kubevirt.io/v1/namespaces/default/virtualmachines/web/start",
		"/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/web",
		"/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines",
		"/apis/subresources.kubevirt.io/v1/virtualmachines", "/metrics", "/debug/pprof", "/virtualmachines-mutate",
		"/apis/subresources.kubevirt.io/v1/namespaces/default/secrets",
	} {
		a := r.do("GET", path, "")
		require.Equal(t, answer{code: 401, kind: "text/plain; charset=utf-8", body: "unknown api endpoint: " + path}, a)
	}
	require.Equal(t, "unknown resource type secrets", r.do("GET", "secrets/web/data", "").body)
	require.Empty(t, r.reviews)
	require.Equal(t, 404, r.do("GET", "virtualmachines/web/nothing", "").code)
	require.Equal(t, 404, r.do("GET", "virtualmachines/web/start/more", "").code)
	require.Equal(t, 404, r.do("GET", "virtualmachines/web/portforward", "").code)
	require.Equal(t, 405, r.do("GET", "virtualmachines/web/start", "").code)
	require.Equal(t, 405, r.do("DELETE", "virtualmachineinstances/web/pause", "").code)
}

// TestDiscoveryIsOpen: unauthenticated callers may use discovery.
func TestDiscoveryIsOpen(t *testing.T) {
	r := newRig(t)
	get := func(path string, into any) answer {
		t.Helper()
		a := r.send(nil, http.Header{}, "GET", path, "")
		if into != nil {
			require.Equal(t, 200, a.code, a.body)
			require.NoError(t, json.Unmarshal([]byte(a.body), into))
		}
		return a
	}
	var groups metav1.APIGroupList
	get("/apis", &groups)
	require.Len(t, groups.Groups, 1)
	var group metav1.APIGroup
	get("/apis/subresources.kubevirt.io", &group)
	require.Equal(t, groups.Groups[0].Versions, group.Versions)
	require.Equal(t, "subresources.kubevirt.io/v1", group.PreferredVersion.GroupVersion)
	require.Len(t, group.Versions, 2)
	for _, version := range group.Versions {
		var list metav1.APIResourceList
		get("/apis/"+version.GroupVersion, &list)
		require.Equal(t, version.GroupVersion, list.GroupVersion)
		names := map[string]bool{}
		for _, resource := range list.APIResources {
			require.True(t, resource.Namespaced)
			require.NotNil(t, resource.Verbs)
			names[resource.Name] = true
		}
		for _, want := range []string{
			"expand-vm-spec", "virtualmachineinstances/vnc", "virtualmachineinstances/vnc/screenshot",
			"virtualmachineinstances/console",
			"virtualmachineinstances/portforward", "virtualmachineinstances/pause", "virtualmachineinstances/reset",
			"virtualmachines/start",
			"virtualmachines/evacuate/cancel", "virtualmachineinstances/sev/injectlaunchsecret",
			"virtualmachines/expand-spec",
		} {
			require.Contains(t, names, want)
		}
		var spec struct {
			Paths map[string]map[string]any `json:"paths"`
		}
		get("/openapi/v3/apis/"+version.GroupVersion, &spec)
		require.Contains(t, spec.Paths["/apis/"+version.GroupVersion+
			"/namespaces/{namespace}/virtualmachines/{name}/start"], "put")
		require.Contains(t, spec.Paths,
			"/apis/"+version.GroupVersion+
				"/namespaces/{namespace}/virtualmachineinstances/{name}/portforward/{port}/{protocol}")
	}
	var v2 struct {
		Paths       map[string]any `json:"paths"`
		Definitions map[string]any `json:"definitions"`
	}
	get("/openapi/v2", &v2)
	require.Contains(t, v2.Definitions, "v1.StartOptions")
	require.Contains(t, v2.Paths, "/apis/subresources.kubevirt.io/v1alpha3/namespaces/{namespace}/expand-vm-spec")
	get("/openapi/v3", &struct{}{})
	get("/", &struct{}{})
	var version map[string]string
	get("/apis/subresources.kubevirt.io/v1/version", &version)
	require.Equal(t, "v1.9.0+virtflow.v0", version["gitVersion"],
		"virtctl refuses to compare what is no semantic version")
	require.Contains(t, get("/apis/subresources.kubevirt.io/v1/healthz", &struct{}{}).body, `"connectivity":"ok"`)
	a := get("/apis/subresources.kubevirt.io/v1/guestfs", nil)
	require.Equal(t, answer{code: 501, kind: "text/plain; charset=utf-8",
		body: "guestfs is not supported yet: virtflow has no image with libguestfs"}, a)
	a = get("/apis/subresources.kubevirt.io/v1/start-cluster-profiler", nil)
	require.Equal(t, answer{code: 403, kind: "text/plain; charset=utf-8",
		body: `Unable to start profiler. "ClusterProfiler" feature gate must be enabled`}, a)
	require.Equal(t, 405, r.send(nil, http.Header{}, "POST", "/apis", "{}").code)
	require.Empty(t, r.reviews)
	require.NoError(t, r.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: subresources.FrontProxyConfig.Namespace, Name: subresources.FrontProxyConfig.Name}}))
	require.Equal(t, 500, get("/healthz", nil).code)
}

// TestBodiesAreBounded: the size of a body and its content are bounded.
func TestBodiesAreBounded(t *testing.T) {
	r := newRig(t)
	r.vm("web", kubevirtv1.RunStrategyHalted, nil)
	require.Equal(t, 413, r.do("PUT", "expand-vm-spec", strings.Repeat(" ", 4<<20)).code)
	require.Equal(t, 413, r.do("PUT", "virtualmachines/web/start", `{"paused":`+strings.Repeat(" ", 100<<10)+`true}`).
		code)
	for _, body := range []string{"{", `{"paused": 7}`, "[1]", "paused: [", `"text"`} {
		a := r.do("PUT", "virtualmachines/web/start", body)
		require.Equal(t, 400, a.code, body)
		require.Contains(t, a.status.Message, "Can not unmarshal Request body to struct, error: ", body)
	}
	require.Equal(t, 400, r.do("PUT", "virtualmachines/web/start", `{"dryRun":["Some"]}`).code)
	require.Equal(t, kubevirtv1.RunStrategyHalted, *r.getVM("web").Spec.RunStrategy)
	require.Equal(t, 202, r.do("PUT", "virtualmachines/web/start", "paused: false\n").code, "YAML will do")
}
