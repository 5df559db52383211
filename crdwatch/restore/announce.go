package restore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/settings"
)

// ReasonOlderCopy is the reason of the event on the KubeVirt object about a restored database.
const ReasonOlderCopy = "OlderCopy"

const (
	announceTime  = 2 * time.Minute // API servers that were restored too may still be starting
	announcePause = 5 * time.Second
)

// Announcer records restores on the KubeVirt object.
type Announcer struct {
	Kubernetes kubernetes.Interface
	KubeVirt   *kube.Client
	// Namespace is virtflow's own, which has the KubeVirt object.
	Namespace string
	Log       zerolog.Logger
}

// Announce records an event about a restored database on the KubeVirt object. Metrics and logs report it as well.
func (a Announcer) Announce(ctx context.Context, v Result) {
	ctx, cancel := context.WithTimeout(ctx, announceTime)
	defer cancel()
	problem := errors.New("the context ended before the first attempt")
	if err := wait.PollUntilContextCancel(ctx, announcePause, true, func(ctx context.Context) (bool, error) {
		problem = a.record(ctx, v)
		return problem == nil, nil
	}); err != nil {
		a.Log.Warn().Err(problem).Msg("failed to record the restore as an event on the KubeVirt object")
	}
}

func (a Announcer) record(ctx context.Context, v Result) error {
	namespace := a.Namespace
	kv, err := a.KubeVirt.KubeVirts(namespace).Get(ctx, settings.ObjectName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // no object to record it on
	}
	if err != nil {
		return fmt.Errorf("reading the KubeVirt object: %w", err)
	}
	now := metav1.Now()
	_, err = a.Kubernetes.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: fmt.Sprintf("%s.older-copy-%d", kv.Name, v.Next.Epoch)},
		InvolvedObject: corev1.ObjectReference{APIVersion: kubevirt.GroupVersion.String(), Kind: "KubeVirt",
			Namespace: namespace, Name: kv.Name, UID: kv.UID},
		Type: corev1.EventTypeWarning, Reason: ReasonOlderCopy, Message: eventMessage(v),
		Source: corev1.EventSource{Component: "virtflow-crdwatch"}, ReportingController: "virtflow-crdwatch",
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("recording the event: %w", err)
	}
	return nil
}

// eventMessage returns the event's message: which database was restored, and what follows.
func eventMessage(v Result) string {
	restored := "Temporal's database was"
	switch {
	case v.Temporal && v.Kubernetes:
		restored = "Temporal's database and etcd were"
	case v.Kubernetes:
		restored = "etcd was"
	}
	return fmt.Sprintf("%s restored from an older copy. Epoch %d begins: every workflow is sent the current "+
		"objects, and reads them before it changes anything. Guests keep running.", restored, v.Next.Epoch)
}
