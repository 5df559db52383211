package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/kube"
)

const (
	strategicMerge = types.StrategicMergePatchType
	namespace      = "scale"
)

// run is one run.
type run struct {
	options
	kubernetes kubernetes.Interface
	kubevirt   *kube.Client
	temporal   client.Client
	log        zerolog.Logger
	stop       []func()

	mu      sync.Mutex
	made    map[string]time.Time // by name
	running map[string]time.Time
	failed  map[string]string // what a VM's condition Failure has said
	objects int
	changed chan struct{}
}

// all is the course of a run.
func (r *run) all(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.made, r.running, r.failed, r.changed = map[string]time.Time{}, map[string]time.Time{}, map[string]string{}, make(chan struct{}, 1)
	_, err := r.kubernetes.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		r.removeNodes(ctx)
	}()
	if err := r.play(ctx); err != nil {
		return err
	}
	if err := r.makeNodes(ctx); err != nil {
		return err
	}
	if err := r.schedulable(ctx); err != nil {
		return err
	}
	if err := r.watch(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := r.make(ctx); err != nil {
		return err
	}
	asked := time.Since(began)
	if err := r.until(ctx, "all run", func() bool { return len(r.running) == r.Count }); err != nil {
		return err
	}
	r.report(began, asked)
	if r.Keep {
		return nil
	}
	return r.deleteAll(ctx)
}

// schedulable waits until every simulated node takes machines.
func (r *run) schedulable(ctx context.Context) error {
	return r.until(ctx, "the simulated nodes are schedulable", func() bool {
		list, err := r.kubernetes.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labelSimulated + "=true,kubevirt.io/schedulable=true"})
		return err == nil && len(list.Items) == r.Nodes
	})
}

// until looks again whenever something has changed, and every second.
func (r *run) until(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	for {
		r.mu.Lock()
		ok := done()
		r.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			r.mu.Lock()
			defer r.mu.Unlock()
			return fmt.Errorf("after %s still not: %s (%d made, %d run, %d there, %d failed)", r.Patience, what, len(r.made), len(r.running), r.objects, len(r.failed))
		case <-r.changed:
		case <-time.After(time.Second):
		}
	}
}

// watch follows the machines.
func (r *run) watch(ctx context.Context) error {
	seen := func(name string, ready bool, failure string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, ok := r.running[name]; !ok && ready {
			r.running[name] = time.Now()
		}
		if failure != "" {
			r.failed[name] = failure
		}
	}
	kind, object := kube.ResourceVMI, runtime.Object(&kubevirt.VirtualMachineInstance{})
	if r.Kind == "vm" {
		kind, object = kube.ResourceVM, &kubevirt.VirtualMachine{}
	}
	update := func(o any) {
		switch x := o.(type) {
		case *kubevirt.VirtualMachine:
			failure := ""
			for _, c := range x.Status.Conditions {
				if c.Type == kubevirt.VirtualMachineFailure && c.Status == corev1.ConditionTrue {
					failure = c.Reason + ": " + c.Message
				}
			}
			seen(x.Name, x.Status.Ready, failure)
		case *kubevirt.VirtualMachineInstance:
			failure := ""
			if x.Status.Phase == kubevirt.Failed {
				failure = "Failed: " + x.Status.Reason
			}
			seen(x.Name, x.Status.Phase == kubevirt.Running, failure)
		}
		r.wake()
	}
	count := func(n int) { r.mu.Lock(); r.objects += n; r.mu.Unlock() }
	informer := cache.NewSharedInformer(r.kubevirt.ListWatch(kind, namespace, ""), object, 0)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { count(1); update(o) },
		UpdateFunc: func(_, o any) { update(o) },
		DeleteFunc: func(any) { count(-1); r.wake() },
	})
	if err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return context.Cause(ctx)
	}
	return nil
}

func (r *run) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// make makes the machines at their rate, whether or not those before them run.
func (r *run) make(ctx context.Context) error {
	var all sync.WaitGroup
	var failed error
	began := time.Now()
	for i := range r.Count {
		if r.Rate > 0 {
			due := began.Add(time.Duration(float64(i) / r.Rate * float64(time.Second)))
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Until(due)):
			}
		}
		name := fmt.Sprintf("m%05d", i)
		r.mu.Lock()
		r.made[name] = time.Now()
		r.mu.Unlock()
		all.Go(func() {
			if err := r.makeOne(ctx, name); err != nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				failed = fmt.Errorf("making %s: %w", name, err)
			}
		})
	}
	all.Wait()
	return failed
}

func (r *run) makeOne(ctx context.Context, name string) error {
	memory := resource.MustParse("64Mi")
	spec := kubevirt.VirtualMachineInstanceSpec{
		NodeSelector: map[string]string{labelSimulated: "true"},
		Tolerations:  []corev1.Toleration{{Key: labelSimulated, Operator: corev1.TolerationOpExists}},
		Domain: kubevirt.DomainSpec{
			Memory: &kubevirt.Memory{Guest: &memory},
			Devices: kubevirt.Devices{
				Disks:      []kubevirt.Disk{{Name: "root", DiskDevice: kubevirt.DiskDevice{Disk: &kubevirt.DiskTarget{Bus: kubevirt.DiskBusVirtio}}}},
				Interfaces: []kubevirt.Interface{*kubevirt.DefaultMasqueradeNetworkInterface()},
			},
		},
		Networks: []kubevirt.Network{*kubevirt.DefaultPodNetwork()},
		Volumes: []kubevirt.Volume{{Name: "root", VolumeSource: kubevirt.VolumeSource{
			ContainerDisk: &kubevirt.ContainerDiskSource{Image: "localhost/virtflow/guest:dev"},
		}}},
	}
	if r.Kind == "vmi" {
		vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: spec}
		_, err := r.kubevirt.VMIs(namespace).Create(ctx, vmi, metav1.CreateOptions{})
		return err
	}
	always := kubevirt.RunStrategyAlways
	vm := &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       kubevirt.VirtualMachineSpec{RunStrategy: &always, Template: &kubevirt.VirtualMachineInstanceTemplateSpec{Spec: spec}},
	}
	_, err := r.kubevirt.VMs(namespace).Create(ctx, vm, metav1.CreateOptions{})
	return err
}

// report prints what came of the starts.
func (r *run) report(began time.Time, asked time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var took []time.Duration
	last := began
	for name, at := range r.running {
		took = append(took, at.Sub(r.made[name]))
		if at.After(last) {
			last = at
		}
	}
	slices.Sort(took)
	whole := last.Sub(began)
	fmt.Printf("scale: %d %ss on %d nodes, asked for within %s\n", r.Count, r.Kind, r.Nodes, asked.Round(100*time.Millisecond))
	fmt.Printf("scale: create to running: median %s, 95th percentile %s, most %s; all after %s (%.1f/s)\n", round(took[len(took)/2]),
		round(took[len(took)*95/100]), round(took[len(took)-1]), round(whole), float64(r.Count)/whole.Seconds())
	fmt.Printf("scale: %d of them said that something failed\n", len(r.failed))
	said := map[string]int{}
	for _, f := range r.failed {
		said[f]++
	}
	for f, n := range said {
		fmt.Printf("scale:   %d × %s\n", n, f)
	}
	printCalls("start", namespace, began, time.Now(), r.Count)
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// deleteAll is kubectl's: one request after the other, and none may be refused.
func (r *run) deleteAll(ctx context.Context) error {
	began := time.Now()
	cmd := exec.CommandContext(ctx, "kubectl", "-n", namespace, "delete", r.Kind, "--all", "--wait=false")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("kubectl delete %s --all, after %d: %w", r.Kind, strings.Count(string(out), "\n"), err)
	}
	asked := time.Since(began)
	if err := r.until(ctx, "all are gone", func() bool { return r.objects == 0 }); err != nil {
		return err
	}
	fmt.Printf("scale: kubectl delete %s --all answered after %s, and all were gone after %s\n", r.Kind, round(asked), round(time.Since(began)))
	printCalls("deletion", namespace, began, time.Now(), r.Count)
	return nil
}
