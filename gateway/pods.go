package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

const (
	byUID = "uid"
	// A node worker may still signal about a pod that is gone: for goneLife, and about maxGone pods.
	goneLife = 10 * time.Minute
	maxGone  = 20000
	// orphanLife is longer than a guest may take to stop.
	orphanLife = 8 * 24 * time.Hour
)

// Pods has the launcher pods of the cluster. It is safe for concurrent use.
type Pods struct {
	factory  informers.SharedInformerFactory
	informer cache.SharedIndexInformer
	synced   func() bool // all of them are known
	gone     *utilcache.LRUExpireCache
	// orphans has the ownerReference that a pod had while this process watched it, by UID.
	orphans *utilcache.LRUExpireCache
}

// launcherPod has the node of a launcher pod, and the workflow of its VMI.
type launcherPod struct{ node, workflow string }

// NewPods makes a Pods that Run fills.
func NewPods(c kubernetes.Interface) (*Pods, error) {
	p := &Pods{gone: utilcache.NewLRUExpireCache(maxGone), orphans: utilcache.NewLRUExpireCache(maxGone)}
	p.factory = informers.NewSharedInformerFactoryWithOptions(c, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = contract.LabelLauncher + "=" + contract.LabelLauncherValue
		}),
		informers.WithTransform(stripPod))
	p.informer = p.factory.Core().V1().Pods().Informer()
	p.synced = p.informer.HasSynced
	if err := p.informer.AddIndexers(cache.Indexers{byUID: func(o any) ([]string, error) {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return nil, nil
		}
		return []string{string(pod.UID)}, nil
	}}); err != nil {
		return nil, fmt.Errorf("indexing launcher pods: %w", err)
	}
	_, err := p.informer.AddEventHandler(
		cache.ResourceEventHandlerFuncs{UpdateFunc: p.rememberOwner, DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if pod, ok := o.(*corev1.Pod); ok {
				p.gone.Add(string(pod.UID), p.launcherPodOf(pod), goneLife)
			}
		}})
	if err != nil {
		return nil, fmt.Errorf("watching launcher pods: %w", err)
	}
	return p, nil
}

// Run watches the pods until ctx ends.
func (p *Pods) Run(ctx context.Context) {
	p.factory.Start(ctx.Done())
	<-ctx.Done()
	p.factory.Shutdown()
}

// Ready returns an error until all pods are known.
func (p *Pods) Ready(context.Context) error {
	if !p.synced() {
		return errors.New("the launcher pods are not known yet")
	}
	return nil
}

// find returns the launcher pod of that UID, also one that was deleted within goneLife.
func (p *Pods) find(uid string) (launcherPod, bool) {
	found, err := p.informer.GetIndexer().ByIndex(byUID, uid)
	if err == nil && len(found) == 1 {
		if pod, ok := found[0].(*corev1.Pod); ok {
			return p.launcherPodOf(pod), true
		}
	}
	if last, ok := p.gone.Get(uid); ok {
		l, ok := last.(launcherPod)
		return l, ok
	}
	return launcherPod{}, false
}

// rememberOwner keeps the ownerReference of a pod when the garbage collector removes it: its VMI is being deleted with
// --cascade=orphan, and its workflow still waits for the end of its guest.
func (p *Pods) rememberOwner(before, after any) {
	was, ok := before.(*corev1.Pod)
	is, also := after.(*corev1.Pod)
	if !ok || !also || observe.OwnerVMI(is) != nil {
		return
	}
	if ref := observe.OwnerVMI(was); ref != nil {
		p.orphans.Add(string(is.UID), *ref, orphanLife)
	}
}

// launcherPodOf returns the node of a pod, and the workflow of its VMI. Its kubelet may change its labels and
// annotations together with its status, but not its ownerReference: all three have to name the same VMI.
func (p *Pods) launcherPodOf(pod *corev1.Pod) launcherPod {
	l := launcherPod{node: pod.Spec.NodeName}
	ref := observe.OwnerVMI(pod)
	if was, ok := p.orphans.Get(string(pod.UID)); ok && ref == nil {
		if r, ok := was.(metav1.OwnerReference); ok {
			ref = &r
		}
	}
	if ref != nil && ref.Name != "" && ref.UID != "" &&
		pod.Labels[contract.LabelLauncher] == contract.LabelLauncherValue &&
		pod.Labels[contract.LabelCreatedBy] == string(ref.UID) &&
		pod.Annotations[contract.AnnotationDomain] == ref.Name {
		l.workflow = contract.VMIID(pod.Namespace, ref.Name)
	}
	return l
}

// stripPod keeps only the fields of a pod that the gateway reads.
func stripPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			OwnerReferences: pod.OwnerReferences,
			Labels:          map[string]string{}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName},
	}
	for _, k := range []string{contract.LabelLauncher, contract.LabelCreatedBy} {
		out.Labels[k] = pod.Labels[k]
	}
	out.Annotations[contract.AnnotationDomain] = pod.Annotations[contract.AnnotationDomain]
	return out, nil
}
