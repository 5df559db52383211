package subresources

import (
	"context"
	"net/http"
	"runtime"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/contract"
)

// serveOpen registers the paths for unauthenticated callers: discovery, versions and health.
func (s *Service) serveOpen() error {
	group := metav1.APIGroup{
		TypeMeta:         metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"},
		Name:             Group,
		PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: Group + "/v1", Version: "v1"},
	}
	for _, v := range versions() {
		group.Versions = append(group.Versions,
			metav1.GroupVersionForDiscovery{GroupVersion: Group + "/" + v, Version: v})
	}
	const apis = "/apis"
	s.open = map[string]http.HandlerFunc{
		apis: serveJSON(metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{group},
		}),
		apis + "/" + Group: serveJSON(group),
	}
	paths := []string{apis, apis + "/" + Group}
	for _, v := range versions() {
		base := apis + "/" + Group + "/" + v
		for path, h := range map[string]http.HandlerFunc{
			"":                        serveJSON(s.resources(v)),
			"/version":                s.version,
			"/guestfs":                guestfs,
			"/healthz":                s.healthz,
			"/start-cluster-profiler": noProfiler("Unable to start profiler."),
			"/stop-cluster-profiler":  noProfiler("Unable to stop profiler."),
			"/dump-cluster-profiler":  noProfiler("Unable to retrieve profiler results."),
		} {
			s.open[base+path] = h
		}
		paths = append(paths, base)
	}
	s.open["/healthz"] = s.healthz
	return s.serveOpenAPI(paths)
}

// serveJSON returns a handler that always answers with this value.
func serveJSON(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { JSON(w, http.StatusOK, v) }
}

// resources returns the discovery document of one version. As in KubeVirt it names no verbs: kubectl does not list
// subresources.
func (s *Service) resources(version string) metav1.APIResourceList {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: Group + "/" + version,
	}
	for _, r := range s.table() {
		list.APIResources = append(list.APIResources,
			metav1.APIResource{Name: r.path(), Namespaced: true, Verbs: metav1.Verbs{}})
	}
	return list
}

// gitVersion returns a semantic version, which KubeVirt's clients compare with their own: that of the API, with this
// build's as its metadata.
func (s *Service) gitVersion() string {
	build := strings.Map(func(c rune) rune {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '.':
			return c
		}
		return '-'
	}, s.Version)
	if build = strings.Trim(build, "."); build == "" {
		return contract.KubeVirtVersion + "+virtflow"
	}
	return contract.KubeVirtVersion + "+virtflow." + build
}

// version answers as KubeVirt does.
func (s *Service) version(w http.ResponseWriter, _ *http.Request) {
	JSON(w, http.StatusOK, map[string]string{
		"gitVersion": s.gitVersion(), "gitCommit": "", "gitTreeState": "", "buildDate": "",
		"goVersion": runtime.Version(), "compiler": runtime.Compiler, "platform": runtime.GOOS + "/" + runtime.GOARCH,
	})
}

// guestfs refuses to name an image with libguestfs. KubeVirt's client shows the reason only if it is plain text.
func guestfs(w http.ResponseWriter, _ *http.Request) {
	Fail(w, &Plain{Code: http.StatusNotImplemented,
		Text: "guestfs is not supported yet: virtflow has no image with libguestfs"})
}

func noProfiler(what string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		Fail(w, &Plain{Code: http.StatusForbidden, Text: what + ` "ClusterProfiler" feature gate must be enabled`})
	}
}

// healthz is a health check of the API server: it reads what every request needs.
func (s *Service) healthz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), clusterTimeout)
	defer cancel()
	if _, err := s.proxy.config(ctx); err != nil {
		JSON(w, http.StatusInternalServerError,
			map[string]any{"apiserver": map[string]string{"connectivity": "failed", "error": err.Error()}})
		return
	}
	JSON(w, http.StatusOK, map[string]any{"apiserver": map[string]string{"connectivity": "ok"}})
}
