package crdwatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/crdwatch/fencing"
	"github.com/virtflow/virtflow/internal/settings"
)

// ReasonOlderCopy is the reason of the event on the KubeVirt object which says that an older copy was put back.
const ReasonOlderCopy = "OlderCopy"

const (
	announceTime  = 2 * time.Minute // API servers that were put back, too, may still be starting
	announcePause = 5 * time.Second
)

// announce shows an older copy on the KubeVirt object, where people look; metrics and log say it as well.
func (w *watch) announce(ctx context.Context, v fencing.Verdict) {
	ctx, cancel := context.WithTimeout(ctx, announceTime)
	defer cancel()
	problem := errors.New("it was not tried")
	if err := wait.PollUntilContextCancel(ctx, announcePause, true, func(ctx context.Context) (bool, error) {
		problem = w.recordOlderCopy(ctx, v)
		return problem == nil, nil
	}); err != nil {
		w.options.Log.Warn().Err(problem).Msg("the KubeVirt object does not show that an older copy was put back")
	}
}

func (w *watch) recordOlderCopy(ctx context.Context, v fencing.Verdict) error {
	namespace := w.options.Namespace
	kv, err := w.options.KubeVirt.KubeVirts(namespace).Get(ctx, settings.ObjectName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // there is nothing to show it on
	}
	if err != nil {
		return fmt.Errorf("reading the KubeVirt object: %w", err)
	}
	now := metav1.Now()
	_, err = w.options.Kubernetes.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: fmt.Sprintf("%s.older-copy-%d", kv.Name, v.Next.Epoch)},
		InvolvedObject: corev1.ObjectReference{APIVersion: kubevirt.GroupVersion.String(), Kind: "KubeVirt",
			Namespace: namespace, Name: kv.Name, UID: kv.UID},
		Type: corev1.EventTypeWarning, Reason: ReasonOlderCopy, Message: olderCopy(v),
		Source: corev1.EventSource{Component: "virtflow-crdwatch"}, ReportingController: "virtflow-crdwatch",
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("recording the event: %w", err)
	}
	return nil
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
