package manifests

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	endpoints "k8s.io/apiserver/pkg/endpoints/request"
)

// TestRolesGrantTheirSubresources: the API server compares only the first part of a subresource's path, so a role that
// names the whole path grants nothing unless it names that part as well.
func TestRolesGrantTheirSubresources(t *testing.T) {
	const group = "subresources.kubevirt.io"
	info := endpoints.RequestInfoFactory{APIPrefixes: sets.NewString("apis"), GrouplessAPIPrefixes: sets.NewString()}
	methods := map[string]string{"get": http.MethodGet, "update": http.MethodPut}
	looked := 0
	for _, o := range rendered(t, "existing") {
		if o["kind"] != "ClusterRole" {
			continue
		}
		data, err := json.Marshal(o)
		require.NoError(t, err)
		var role rbacv1.ClusterRole
		require.NoError(t, json.Unmarshal(data, &role))
		for _, rule := range role.Rules {
			if !slices.Contains(rule.APIGroups, group) {
				continue
			}
			for _, resource := range rule.Resources {
				kind, subresource, namespaced := strings.Cut(resource, "/")
				if !namespaced {
					continue
				}
				for _, verb := range rule.Verbs {
					path := "/apis/" + group + "/v1/namespaces/default/" + kind + "/web/" + subresource
					i, err := info.NewRequestInfo(httptest.NewRequest(methods[verb], path, nil))
					require.NoError(t, err)
					require.Equal(t, verb, i.Verb)
					require.Contains(t, rule.Resources, i.Resource+"/"+i.Subresource,
						"%s: %s %s", role.Name, verb, resource)
					looked++
				}
			}
		}
	}
	require.Greater(t, looked, 50, "the roles were not found")
}
