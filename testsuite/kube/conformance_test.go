package kube_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/testsuite/kube/conformance"
)

// TestConformance: the server in memory passes the cases that the end-to-end tests run against a real one.
func TestConformance(t *testing.T) {
	conformance.Run(t, kube.New(kube.Options{CustomGroup: conformance.Group}).Config(), "fake")
}

// TestOverHTTP: other processes reach the server by a listener, and use protobuf unless they are configured otherwise.
func TestOverHTTP(t *testing.T) {
	web := httptest.NewServer(kube.New(kube.Options{}))
	defer web.Close()
	clients, err := kubernetes.NewForConfig(
		&rest.Config{Host: web.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf}})
	require.NoError(t, err)
	pods := clients.CoreV1().Pods("default")
	watch, err := pods.Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watch.Stop()
	_, err = pods.Create(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"a.b/c"}},
			Spec: corev1.PodSpec{NodeName: "n"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, pods.Delete(t.Context(), "a", *metav1.NewDeleteOptions(7)))
	require.Equal(t, "ADDED", string((<-watch.ResultChan()).Type))
	pod, ok := (<-watch.ResultChan()).Object.(*corev1.Pod)
	require.True(t, ok)
	require.Equal(t, int64(7), *pod.DeletionGracePeriodSeconds)
}
