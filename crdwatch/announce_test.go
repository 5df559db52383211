package crdwatch

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

	"github.com/virtflow/virtflow/crdwatch/fencing"
	"github.com/virtflow/virtflow/internal/kube"
)

// TestAnOlderCopyShowsOnTheKubeVirtObject as a warning that kubectl describe finds.
func TestAnOlderCopyShowsOnTheKubeVirtObject(t *testing.T) {
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
	w := &watch{Watcher: &Watcher{
		options: Options{Kubernetes: kubernetes, KubeVirt: kv, Namespace: "virtflow", Log: zerolog.Nop()}}}
	for range 2 { // there is one for each epoch
		w.announce(t.Context(), fencing.Verdict{Next: fencing.Token{Epoch: 3}, Temporal: true})
	}

	events, err := kubernetes.CoreV1().Events("virtflow").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, events.Items, 1)
	e := events.Items[0]
	require.Equal(t, corev1.ObjectReference{APIVersion: "kubevirt.io/v1", Kind: "KubeVirt", Namespace: "virtflow",
		Name: "kubevirt", UID: "k"}, e.InvolvedObject)
	require.Equal(t, corev1.EventTypeWarning, e.Type)
	require.Equal(t, "OlderCopy", e.Reason)
	require.Contains(t, e.Message, "An older copy of Temporal's database was put back. Epoch 3 begins")
	require.Contains(t, olderCopy(fencing.Verdict{Kubernetes: true}), "An older copy of etcd was put back")
	require.Contains(t, olderCopy(fencing.Verdict{Kubernetes: true, Temporal: true}), "Temporal's database and of etcd")
}
