package machinemetrics

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/virtflow/virtflow/crdwatch/watch"
)

// Leader returns what metrics read: the informers of the leader; nil: another process leads. So sums over all
// processes are right.
type Leader func() *watch.Informers

// phaseBuckets returns KubeVirt's buckets for the time that an object takes to reach a phase, in seconds.
func phaseBuckets() []float64 {
	return []float64{0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 90, 120, 180, 300, 600, 1200, 1800, 3600}
}

// followUpdates calls observe for each update of an object in an informer of i, while i is the leader's.
func followUpdates[T metav1.Object](
	leading Leader, i *watch.Informers, of cache.SharedIndexInformer, observe func(old, now T),
) error {
	_, err := of.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		old, okOld := before.(T)
		now, okNow := after.(T)
		if okOld && okNow && old.GetUID() == now.GetUID() && leading() == i {
			observe(old, now)
		}
	}})
	if err != nil {
		return fmt.Errorf("subscribing to an informer: %w", err)
	}
	return nil
}
