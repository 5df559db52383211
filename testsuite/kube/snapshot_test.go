package kube_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/virtflow/virtflow/testsuite/kube"
)

// TestRestore: later writes are gone, versions run backwards, and a watch gets no events until they have caught up.
func TestRestore(t *testing.T) {
	s := kube.New(kube.Options{})
	client, err := kubernetes.NewForConfig(s.Config())
	require.NoError(t, err)
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	put := func(name string) *corev1.ConfigMap {
		out, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		require.NoError(t, err)
		return out
	}
	kept := put("kept")
	backup := s.Snapshot()
	lost := put("lost")
	require.NoError(t, maps.Delete(t.Context(), "kept", metav1.DeleteOptions{}))
	now, err := maps.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	w, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: now.ResourceVersion})
	require.NoError(t, err)
	defer w.Stop()

	s.Restore(backup)
	back, err := maps.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, back.Items, 1)
	require.Equal(t, kept.UID, back.Items[0].UID)
	require.Equal(t, kept.ResourceVersion, back.Items[0].ResourceVersion)
	again := put("again")
	require.Equal(t, lost.ResourceVersion, again.ResourceVersion)
	require.NotEqual(t, lost.UID, again.UID)
	put("as-many")
	put("one-more")
	select {
	case e := <-w.ResultChan():
		o, ok := e.Object.(*corev1.ConfigMap)
		require.True(t, ok)
		require.Equal(t, "one-more", o.Name)
	case <-time.After(10 * time.Second):
		t.Fatal("the watch does not continue once versions have caught up")
	}
}
