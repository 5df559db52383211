package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Record returns a recorder that writes events at once. The control worker's has a queue, whose goroutine would make
// the order of a test's calls vary.
func Record(clients kubernetes.Interface) func(*corev1.Event) {
	return func(e *corev1.Event) {
		_, _ = clients.CoreV1().Events(e.Namespace).Create(context.Background(), e, metav1.CreateOptions{})
	}
}
