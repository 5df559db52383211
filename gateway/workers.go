package gateway

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Workers has the pods of the node workers' account, so that a token can be forgotten with its pod. It is safe for
// concurrent use.
type Workers struct {
	factory  informers.SharedInformerFactory
	informer cache.SharedIndexInformer
}

// NewWorkers makes a Workers for one account; Run fills it.
func NewWorkers(c kubernetes.Interface, namespace, account string) (*Workers, error) {
	f := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(namespace),
		informers.WithTransform(stripWorker),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.serviceAccountName", account).String()
		}))
	w := &Workers{factory: f, informer: f.Core().V1().Pods().Informer()}
	if err := w.informer.AddIndexers(cache.Indexers{byUID: func(o any) ([]string, error) {
		if pod, ok := o.(*corev1.Pod); ok {
			return []string{string(pod.UID)}, nil
		}
		return nil, nil
	}}); err != nil {
		return nil, fmt.Errorf("indexing the node workers' pods: %w", err)
	}
	return w, nil
}

// Run watches the pods until ctx ends.
func (w *Workers) Run(ctx context.Context) {
	w.factory.Start(ctx.Done())
	<-ctx.Done()
	w.factory.Shutdown()
}

// isOn reports whether the pod of that UID exists on that node. It is false until the pods have been listed.
func (w *Workers) isOn(node, uid string) bool {
	if !w.informer.HasSynced() || uid == "" {
		return false
	}
	found, err := w.informer.GetIndexer().ByIndex(byUID, uid)
	if err != nil || len(found) != 1 {
		return false
	}
	pod, ok := found[0].(*corev1.Pod)
	return ok && pod.Spec.NodeName == node
}

// known is a review of a valid token.
type known struct {
	caller *Caller
	at     time.Time // when it was reviewed
	// watched: the pod was in the informer then, so that its deletion will be seen.
	watched bool
}

// isValid reports whether a review still counts at some time. It does for watchedLife while its pod is in the informer.
// Where no pod was in it, as with a token that is bound to a node, it does for knownLife only.
func (w *Workers) isValid(k known, now time.Time) bool {
	age := now.Sub(k.at)
	if w.isOn(k.caller.Node, k.caller.PodUID) {
		return age < watchedLife
	}
	return !k.watched && age < knownLife
}

// stripWorker keeps only the fields of a pod that the gateway reads.
func stripWorker(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			ResourceVersion: pod.ResourceVersion},
		Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName},
	}, nil
}
