package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Record writes events at once, where the control worker has a queue: a goroutine would make each run of a test another
// one.
func Record(clients kubernetes.Interface) func(*corev1.Event) {
	return func(e *corev1.Event) {
		_, _ = clients.CoreV1().Events(e.Namespace).Create(context.Background(), e, metav1.CreateOptions{}) //nolint:errcheck // it may be lost, or be there
	}
}
