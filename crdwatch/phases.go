package crdwatch

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// lead is what metrics read: what the leader's informers hold; nil: another process leads. Sums over all processes are
// right.
type lead func() *Informers

// phaseBuckets are KubeVirt's for the time that an object takes to a phase, in seconds.
func phaseBuckets() []float64 {
	return []float64{0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 90, 120, 180, 300, 600, 1200, 1800, 3600}
}

// follow hands observe what each write has changed in an object of an informer of i, while i is the leader's.
func follow[T metav1.Object](leading lead, i *Informers, of cache.SharedIndexInformer, observe func(old, now T)) error {
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
