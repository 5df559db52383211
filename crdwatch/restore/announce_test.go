package restore

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/kube"
)

// TestRecordsRestoreOnKubeVirtObject expects a warning event, which kubectl describe shows.
func TestRecordsRestoreOnKubeVirtObject(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/kubevirt.io/v1/namespaces/virtflow/kubevirts/kubevirt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&kubevirt.KubeVirt{
			TypeMeta:   metav1.TypeMeta{APIVersion: "kubevirt.io/v1", Kind: "KubeVirt"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "kubevirt", UID: "k"}})
	}))
	defer server.Close()
	kv, err := kube.New(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	kubernetes := fake.NewClientset()
	a := Announcer{Kubernetes: kubernetes, KubeVirt: kv, Namespace: "virtflow", Log: zerolog.Nop()}
	for range 2 { // there is one for each epoch
		a.Announce(t.Context(), Result{Next: Token{Epoch: 3}, Temporal: true})
	}

	events, err := kubernetes.CoreV1().Events("virtflow").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, events.Items, 1)
	e := events.Items[0]
	require.Equal(t, corev1.ObjectReference{APIVersion: "kubevirt.io/v1", Kind: "KubeVirt", Namespace: "virtflow",
		Name: "kubevirt", UID: "k"}, e.InvolvedObject)
	require.Equal(t, corev1.EventTypeWarning, e.Type)
	require.Equal(t, "OlderCopy", e.Reason)
	require.Contains(t, e.Message, "Temporal's database was restored from an older copy. Epoch 3 begins")
	require.Contains(t, eventMessage(Result{Kubernetes: true}), "etcd was restored from an older copy")
	require.Contains(t, eventMessage(Result{Kubernetes: true, Temporal: true}),
		"Temporal's database and etcd were restored")
}
