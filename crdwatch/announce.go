package crdwatch

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/crdwatch/fencing"
	"github.com/virtflow/virtflow/internal/settings"
)

// ReasonOlderCopy is the reason of the event on the KubeVirt object which says that an older copy was put back.
const ReasonOlderCopy = "OlderCopy"

const announceTime = 5 * time.Second

// announce shows an older copy on the KubeVirt object, where people look; metrics and log say it as well.
func (w *watch) announce(ctx context.Context, v fencing.Verdict) {
	ctx, cancel := context.WithTimeout(ctx, announceTime)
	defer cancel()
	namespace := w.options.Namespace
	kv, err := w.options.KubeVirt.KubeVirts(namespace).Get(ctx, settings.ObjectName, metav1.GetOptions{})
	if err == nil {
		now := metav1.Now()
		_, err = w.options.Kubernetes.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s.older-copy-%d", kv.Name, v.Next.Epoch), Namespace: namespace},
			InvolvedObject: corev1.ObjectReference{APIVersion: kubevirt.GroupVersion.String(), Kind: "KubeVirt",
				Namespace: namespace, Name: kv.Name, UID: kv.UID},
			Type: corev1.EventTypeWarning, Reason: ReasonOlderCopy, Message: olderCopy(v),
			Source: corev1.EventSource{Component: "virtflow-crdwatch"}, ReportingController: "virtflow-crdwatch",
			FirstTimestamp: now, LastTimestamp: now, Count: 1,
		}, metav1.CreateOptions{})
	}
	if err != nil {
		w.options.Log.Warn().Err(err).Msg("the KubeVirt object does not show that an older copy was put back")
	}
}

// olderCopy says of what a copy was put back, and what follows.
func olderCopy(v fencing.Verdict) string {
	of := "Temporal's database"
	switch {
	case v.Temporal && v.Kubernetes:
		of = "Temporal's database and of etcd"
	case v.Kubernetes:
		of = "etcd"
	}
	return fmt.Sprintf("An older copy of %s was put back. Epoch %d begins: every workflow is sent what there is now, and "+
		"reads it before it changes anything. Guests run on.", of, v.Next.Epoch)
}
