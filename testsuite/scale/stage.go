package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/testsuite/processes"
)

// stage is a number of VMs in a namespace of their own.
type stage struct {
	*run
	namespace string
	count     int

	mu       sync.Mutex
	machines map[string]*machine
	want     func(*machine) bool
	left     int // those that have not reached want yet
	failures map[string]string
	changed  chan struct{}
}

// step has the results of one step of a stage.
type step struct {
	Took  []time.Duration `json:"took"`  // each VM's, sorted
	Done  []time.Duration `json:"done"`  // each VM's, from the first request, sorted
	Whole time.Duration   `json:"whole"` // from the first request until the last VM had done it
	Asked time.Duration   `json:"asked"` // until the last request was answered
	Calls calls           `json:"calls"`
	// Used is the resource usage of each program until there were no more requests to the API server.
	Used map[string]processes.Used `json:"used"`
	Legs []leg                     `json:"legs"`
	// Histories counts what Temporal has recorded about some of the VMs; nil: there is no Temporal.
	Histories *sampled `json:"histories,omitempty"`
}

// perSecond returns how many VMs a second have done it.
func (s step) perSecond() float64 { return float64(len(s.Took)) / s.Whole.Seconds() }

// each returns the average for a VM.
func (s step) each(count int) float64 { return float64(count) / float64(max(1, len(s.Took))) }

// newStage creates the namespace of a stage.
func (r *run) newStage(ctx, life context.Context, name string, count int) (*stage, error) {
	made, err := r.kubernetes.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "scale-" + name + "-", Labels: map[string]string{labelSimulated: "true"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return r.followed(ctx, life, made.Name, count)
}

// followed returns the stage in a namespace, which is watched until the run's life ends.
func (r *run) followed(ctx, life context.Context, namespace string, count int) (*stage, error) {
	s := &stage{run: r, namespace: namespace, count: count, machines: map[string]*machine{},
		failures: map[string]string{}, changed: make(chan struct{}, 1)}
	for i := range count {
		s.machines[fmt.Sprintf("vm%05d", i)] = &machine{}
	}
	vms := cache.NewSharedInformer(r.kubevirt.ListWatch(kube.ResourceVM, s.namespace, ""), &kubevirt.VirtualMachine{},
		0)
	vmis := cache.NewSharedInformer(r.kubevirt.ListWatch(kube.ResourceVMI, s.namespace, ""),
		&kubevirt.VirtualMachineInstance{}, 0)
	if err := errors.Join(
		follow(vms, func(vm *kubevirt.VirtualMachine) { s.observe(vm.Name, func(m *machine) { m.observeVM(vm) }) },
			func(name string) { s.observe(name, func(m *machine) { m.observeVM(nil) }) }),
		follow(vmis, func(vmi *kubevirt.VirtualMachineInstance) {
			s.observe(vmi.Name, func(m *machine) { m.observeVMI(vmi) })
		},
			func(name string) { s.observe(name, func(m *machine) { m.observeVMI(nil) }) }),
	); err != nil {
		return nil, err
	}
	go vms.RunWithContext(life)
	go vmis.RunWithContext(life)
	if !cache.WaitForCacheSync(ctx.Done(), vms.HasSynced, vmis.HasSynced) {
		return nil, context.Cause(ctx)
	}
	return s, nil
}

func follow[T metav1.Object](informer cache.SharedInformer, there func(T), gone func(name string)) error {
	is := func(o any) {
		if x, ok := o.(T); ok {
			there(x)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: is, UpdateFunc: func(_, o any) { is(o) },
		DeleteFunc: func(o any) {
			if key, err := cache.DeletionHandlingObjectToName(o); err == nil {
				gone(key.Name)
			}
		},
	})
	return err
}

// observe records when a VM has reached what the step waits for. A later change of its state does not undo it.
func (s *stage) observe(name string, fold func(*machine)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.machines[name]
	if m == nil {
		return
	}
	fold(m)
	if m.Failure != "" {
		s.failures[name] = m.Failure
	}
	if s.want == nil || !m.done.IsZero() || !s.want(m) {
		return
	}
	m.done = time.Now()
	s.left--
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// names returns the names of the VMs, sorted.
func (s *stage) names() []string { return slices.Sorted(maps.Keys(s.machines)) }

// step lets all VMs do something, and waits until the last has done it and there are no more requests to the API
// server.
func (s *stage) step(
	ctx context.Context, what string, want func(*machine) bool, act func(context.Context) error,
) (step, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Patience, fmt.Errorf("not within %s", s.Patience))
	defer cancel()
	before, err := processes.Running(s.loaded.programs()...)
	if err != nil {
		return step{}, err
	}
	s.mu.Lock()
	began := time.Now()
	s.want, s.left = want, s.count
	for _, m := range s.machines {
		m.asked, m.done, m.before = began, time.Time{}, m.UID
		if want(m) { // before any request: a continued run
			m.done = began
			s.left--
		}
	}
	s.mu.Unlock()
	err = act(ctx)
	out := step{Asked: time.Since(began)}
	if err == nil {
		err = s.until(ctx, func() bool { return s.left == 0 })
	}
	s.mu.Lock()
	for _, m := range s.machines {
		if !m.done.IsZero() {
			out.Took = append(out.Took, m.done.Sub(m.asked))
			out.Done = append(out.Done, m.done.Sub(began))
			out.Whole = max(out.Whole, m.done.Sub(began))
		}
	}
	s.mu.Unlock()
	slices.Sort(out.Took)
	slices.Sort(out.Done)
	if err != nil {
		return out, fmt.Errorf("%s in %s: %d of %d %s: %w", what, s.namespace, len(out.Took), s.count,
			s.object().plural, err)
	}
	if out.Calls, err = s.settled(ctx, began); err != nil {
		return out, err
	}
	now, err := processes.Running(s.loaded.programs()...)
	if err != nil {
		return out, err
	}
	out.Used = processes.Since(before, now)
	if out.Legs, err = s.legs(began); err != nil {
		return out, err
	}
	if out.Histories, err = s.loaded.histories(ctx, s, began); err != nil {
		fmt.Printf("scale: Temporal's histories are left out: %v\n", err)
		s.found(holds("Temporal's histories can be read: "+what, false))
	}
	return out, nil
}

// until waits until done returns true. It is called whenever a VM has reached what the step waits for.
func (s *stage) until(ctx context.Context, done func() bool) error {
	for {
		s.mu.Lock()
		ok := done()
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.changed:
		}
	}
}

// atATime lets each VM in turn do something, so many at a time: one is done when it has reached what the step waits
// for.
func (s *stage) atATime(ctx context.Context, inHand int, act func(ctx context.Context, name string) error) error {
	for i, name := range s.names() {
		if err := s.until(ctx, func() bool { return i-(s.count-s.left) < inHand }); err != nil {
			return err
		}
		s.ask(name)
		if err := act(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// atRate lets each VM do something at its time, without waiting for the earlier ones.
func (s *stage) atRate(ctx context.Context, perSecond float64, act func(ctx context.Context, name string) error) error {
	var all sync.WaitGroup
	defer all.Wait()
	failed := make(chan error, s.count)
	began := time.Now()
	for i, name := range s.names() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Until(began.Add(time.Duration(float64(i) / perSecond * float64(time.Second))))):
		}
		s.ask(name)
		all.Go(func() {
			if err := act(ctx, name); err != nil {
				failed <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

func (s *stage) ask(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machines[name].asked = time.Now()
}

// deleteOne deletes one object and returns at once.
func (s *stage) deleteOne(kind string) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		return s.kubectl(ctx, "delete", kind, name, "--wait=false")
	}
}

// deleteAll deletes as a user does, who waits until all are gone.
func (s *stage) deleteAll(kind string) func(context.Context) error {
	return func(ctx context.Context) error { return s.kubectl(ctx, "delete", kind, "--all") }
}

func (s *stage) kubectl(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"-n", s.namespace}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if out, err := cmd.Output(); err != nil {
		return fmt.Errorf("kubectl %s, after %d: %w: %s", strings.Join(args, " "), bytes.Count(out, []byte("\n")), err,
			strings.TrimSpace(stderr.String()))
	}
	return nil
}
