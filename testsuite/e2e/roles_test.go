//go:build e2e

package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// granted has the subresources that KubeVirt's roles of v1.9 grant, by the role of Kubernetes to which they are
// aggregated. Those of no such role are bound by name, if at all.
var granted = map[string][]string{
	"": nil,
	"view": {"virtualmachines/expand-spec", "virtualmachines/objectgraph", "virtualmachineinstances/guestosinfo",
		"virtualmachineinstances/filesystemlist", "virtualmachineinstances/userlist",
		"virtualmachineinstances/sev/fetchcertchain", "virtualmachineinstances/sev/querylaunchmeasurement",
		"virtualmachineinstances/objectgraph", "expand-vm-spec"},
	"edit": {"virtualmachines/expand-spec", "virtualmachines/objectgraph", "virtualmachines/portforward",
		"virtualmachines/start", "virtualmachines/stop", "virtualmachines/restart", "virtualmachines/addvolume",
		"virtualmachines/removevolume", "virtualmachines/memorydump", "virtualmachines/evacuate/cancel",
		"virtualmachineinstances/console", "virtualmachineinstances/vnc", "virtualmachineinstances/portforward",
		"virtualmachineinstances/guestosinfo", "virtualmachineinstances/filesystemlist",
		"virtualmachineinstances/userlist", "virtualmachineinstances/usbredir",
		"virtualmachineinstances/sev/fetchcertchain", "virtualmachineinstances/sev/querylaunchmeasurement",
		"virtualmachineinstances/objectgraph", "virtualmachineinstances/pause", "virtualmachineinstances/unpause",
		"virtualmachineinstances/addvolume", "virtualmachineinstances/removevolume", "virtualmachineinstances/freeze",
		"virtualmachineinstances/unfreeze", "virtualmachineinstances/softreboot", "virtualmachineinstances/reset",
		"virtualmachineinstances/sev/setupsession", "virtualmachineinstances/sev/injectlaunchsecret",
		"virtualmachineinstances/evacuate/cancel", "expand-vm-spec"},
}

// TestRolesReachSubresources calls every subresource through the API server, with each role and with none. The VM does
// not exist: a user who is authorised gets NotFound, others Forbidden.
func TestRolesReachSubresources(t *testing.T) {
	suite.TakeTurn(t, 6)
	namespace := newNamespace(t)
	granted["admin"] = append(slices.Clone(granted["edit"]), "virtualmachineinstances/vnc/screenshot")
	var list metav1.APIResourceList
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, "get", "--raw", "/apis/subresources.kubevirt.io/v1")), &list))
	require.Greater(t, len(list.APIResources), 25)
	for _, role := range []string{"", "view", "edit", "admin"} {
		account := "no-role"
		if role != "" {
			account = role
		}
		kubectl(t, "-n", namespace, "create", "serviceaccount", account)
		if role != "" {
			kubectl(t, "-n", namespace, "create", "rolebinding", role, "--clusterrole="+role,
				"--serviceaccount="+namespace+":"+account)
		}
		for _, r := range list.APIResources {
			if !r.Namespaced {
				continue
			}
			path := "/apis/subresources.kubevirt.io/v1/namespaces/" + namespace + "/" + r.Name
			if kind, subresource, ok := strings.Cut(r.Name, "/"); ok {
				path = strings.Replace(path, r.Name, kind+"/absent/"+subresource, 1)
			}
			if strings.HasSuffix(path, "/portforward") {
				path += "/22"
			}
			as := "--as=system:serviceaccount:" + namespace + ":" + account
			// Discovery names no verbs, as in KubeVirt: one of the two is the subresource's.
			_, get := try(as, "get", "--raw", path)
			_, update := tryWith("{}", as, "replace", "--raw", path, "-f", "-")
			reached := !isForbidden(t, get) || !isForbidden(t, update)
			require.Equal(t, slices.Contains(granted[role], r.Name), reached, "role %q, %s: get: %v; update: %v",
				role, r.Name, get, update)
		}
	}
}

// isForbidden reports whether RBAC refuses a request, or the path's other method does not exist.
func isForbidden(t *testing.T, err error) bool {
	t.Helper()
	require.Error(t, err, "there is no such VM")
	return strings.Contains(err.Error(), "(Forbidden)") || strings.Contains(err.Error(), "You must be logged in")
}
