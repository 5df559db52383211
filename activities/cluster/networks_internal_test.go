package cluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubevirt "kubevirt.io/api/core/v1"
)

// TestWhatNetworksAskFor: only the network definitions that an instance names are read.
func TestWhatNetworksAskFor(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/k8s.cni.cncf.io/v1/namespaces/here/network-attachment-definitions/blue":
			_, _ = w.Write([]byte(`{"apiVersion":"k8s.cni.cncf.io/v1","kind":"NetworkAttachmentDefinition",
				"metadata":{"name":"blue"},"spec":{"config":"{}"}}`))
		case "/apis/k8s.cni.cncf.io/v1/namespaces/other/network-attachment-definitions/fast":
			_, _ = w.Write([]byte(`{"metadata":{"annotations":{
				"k8s.v1.cni.cncf.io/resourceName":"vendor.example/vf"}}}`))
		case "/apis/k8s.cni.cncf.io/v1/namespaces/here/network-attachment-definitions/odd":
			_, _ = w.Write([]byte(`none`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound",
				"code":404}`))
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	a := &Activities{Options: Options{Kubernetes: client}}
	read := func(networks string) (map[string]string, error) {
		vmi := &kubevirt.VirtualMachineInstance{}
		vmi.Namespace = "here"
		require.NoError(t, json.Unmarshal([]byte(`{"networks":[`+networks+`]}`), &vmi.Spec))
		return a.networkResources(t.Context(), vmi)
	}
	got, err := read(`{"name":"default","pod":{}}`)
	require.NoError(t, err)
	require.Empty(t, got)
	require.Empty(t, asked)
	got, err = read(`{"name":"a","multus":{"networkName":"blue"}},{"name":"b","multus":{"networkName":"other/fast"}}`)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"b": "vendor.example/vf"}, got)
	asked = nil
	for name, problem := range map[string]string{
		"absent":          "Failed to locate network attachment definition here/absent",
		"odd":             "the NetworkAttachmentDefinition here/odd cannot be read",
		"../../secrets/s": `invalid namespace ".."`,
		"other/..":        `invalid resource name ".."`,
		"/blue":           "an empty namespace may not be set",
	} {
		_, err := read(`{"name":"a","multus":{"networkName":"` + name + `"}}`)
		require.ErrorContains(t, err, problem, name)
	}
	require.Len(t, asked, 2, "names that lead elsewhere are not asked for")
}
