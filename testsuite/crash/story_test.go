//go:build crash

package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	crdkube "github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// story is one run of a scenario, in a namespace of its own.
type story struct {
	*lane
	*follower
	namespace string
	// writes and reads are the control worker's requests to Kubernetes until the end was reached, and events those of
	// each followed workflow.
	writes, reads int
	events        map[string]int

	mu        sync.Mutex
	following map[string]chan struct{}
}

// play runs a scenario to its end, and cleans up. onRequest is called right before the scenario's request, and onEvent
// after each later event, with their number so far. It returns the state of the cluster at the end: the wanted one, if
// one is given and is reached.
func (l *lane) play(
	sc scenario, namespace string, onRequest func(), onEvent func(int), want string,
) (s *story, summary string, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s = &story{lane: l, namespace: namespace, following: map[string]chan struct{}{}}
	s.follower = follow(ctx, l.temporal, onEvent)
	if _, err := kube.Put(l.kube, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return s, "", err
	}
	l.machine.onObject(func(resource, in, name string) {
		switch {
		case in != namespace:
		case resource == crdkube.ResourceVM:
			s.follow(contract.VMID(in, name))
		case resource == crdkube.ResourceVMI:
			s.follow(contract.VMIID(in, name))
		case resource == crdkube.ResourceVMIM:
			s.follow(contract.MigrationID(in, name))
		default:
			s.follow(contract.ReplicaSetID(in, name))
		}
	})
	if err := sc.prepare(s); err != nil {
		return s, "", fmt.Errorf("preparing: %w", err)
	}
	if err := await(patience, s.settled); err != nil {
		return s, "", fmt.Errorf("preparing: %w", err)
	}
	s.arm()
	onRequest()
	if err := sc.act(s); err != nil {
		return s, "", fmt.Errorf("asking: %w", err)
	}
	if err := await(patience, func() error {
		if err := errors.Join(sc.done(s), s.settled()); err != nil {
			return err
		}
		if got := s.summary(); want != "" && got != want { // crdwatch may not have sent everything yet
			return fmt.Errorf("the end differs:\n%s\nwithout a kill it is:\n%s", got, want)
		}
		return nil
	}); err != nil {
		return s, "", fmt.Errorf("the end is not reached: %w", err)
	}
	summary, s.writes, s.reads, s.events = s.summary(), l.stopWrites(), int(l.read.Load()), s.counts()
	if made := s.machine.total(namespace); made != sc.makes {
		err = fmt.Errorf("%+v were created, want %+v", made, sc.makes)
	}
	return s, summary, errors.Join(err, s.clean())
}

// follow follows an entity, or notes that there may be a new run of it.
func (s *story) follow(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.following[id] == nil {
		s.following[id] = make(chan struct{}, 1)
		go s.entity(id, s.following[id])
	}
	select {
	case s.following[id] <- struct{}{}:
	default:
	}
}

// followed returns the entities that are followed.
func (s *story) followed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.following))
}

// settled fails while transitions are open, or there was an event recently.
func (s *story) settled() error {
	if open, _ := s.transitions(); len(open) > 0 {
		return fmt.Errorf("open: %v", open)
	}
	s.follower.mu.Lock()
	defer s.follower.mu.Unlock()
	if time.Since(s.last) < 300*time.Millisecond {
		return errors.New("there are still events")
	}
	return nil
}

// clean deletes everything as a user would, and fails if anything is left.
func (s *story) clean() error {
	_ = kube.Remove[kubevirt.VirtualMachine](s.kube, s.namespace, vmName, nil)
	_ = kube.Remove[kubevirt.VirtualMachineInstanceReplicaSet](s.kube, s.namespace, vmName, nil)
	for _, m := range kube.List[kubevirt.VirtualMachineInstanceMigration](s.kube, s.namespace) {
		_ = kube.Remove[kubevirt.VirtualMachineInstanceMigration](s.kube, s.namespace, m.Name, nil)
	}
	_ = kube.Remove[corev1.Node](s.kube, "", s.namespace, nil)
	if err := await(patience, s.checkNothingLeft); err != nil {
		return fmt.Errorf("cleaning up: %w", err)
	}
	if err := await(patience, s.entities); err != nil {
		return fmt.Errorf("cleaning up: %w", err)
	}
	return nil
}

// summary returns the outcome as text, the same in each run: the objects, their statuses, what was created, and how the
// transitions ended.
func (s *story) summary() string {
	var b strings.Builder
	for _, name := range s.names() {
		resource, _, _ := strings.Cut(name, "/")
		fmt.Fprintln(&b, resource)
	}
	if vm := kube.Get[kubevirt.VirtualMachine](s.kube, s.namespace, vmName); vm != nil {
		fmt.Fprintln(&b, vm.Status.PrintableStatus, vm.Status.Ready, vm.Status.Created, vm.Status.RunStrategy,
			vm.Status.StartFailure != nil, len(vm.Status.StateChangeRequests), vm.Finalizers)
		for _, c := range vm.Status.Conditions {
			fmt.Fprintln(&b, "vm", c.Type, c.Status, c.Reason)
		}
	}
	for _, vmi := range kube.List[kubevirt.VirtualMachineInstance](s.kube, s.namespace) {
		fmt.Fprintln(&b, vmi.Status.Phase, vmi.Status.NodeName, len(vmi.Status.ActivePods), vmi.Finalizers)
		for _, c := range vmi.Status.Conditions {
			fmt.Fprintln(&b, "vmi", c.Type, c.Status, c.Reason)
		}
	}
	for _, m := range kube.List[kubevirt.VirtualMachineInstanceMigration](s.kube, s.namespace) {
		fmt.Fprintln(&b, m.Status.Phase, m.Finalizers)
		for _, c := range m.Status.Conditions {
			fmt.Fprintln(&b, "migration", c.Type, c.Status, c.Reason)
		}
	}
	if set := kube.Get[kubevirt.VirtualMachineInstanceReplicaSet](s.kube, s.namespace, vmName); set != nil {
		fmt.Fprintln(&b, set.Status.Replicas, set.Status.ReadyReplicas)
	}
	if node := kube.Get[corev1.Node](s.kube, "", s.namespace); node != nil {
		fmt.Fprintln(&b, node.Labels)
	}
	fmt.Fprintf(&b, "made %+v\n", s.machine.total(s.namespace))
	_, closed := s.transitions()
	fmt.Fprintln(&b, closed)
	return b.String()
}

// names returns the objects of the story.
func (s *story) names() []string {
	return slices.DeleteFunc(s.kube.Names(), func(name string) bool {
		return !strings.Contains(name+"/", "/"+s.namespace+"/")
	})
}

// stateError returns the state of the cluster as an error, which is read when it is printed.
func (s *story) stateError() error { return landscape{s} }

type landscape struct{ story *story }

// Error returns that state.
func (l landscape) Error() string {
	s := l.story
	var b strings.Builder
	fmt.Fprintln(&b, s.names())
	for _, vm := range kube.List[kubevirt.VirtualMachine](s.kube, s.namespace) {
		b.WriteString(inJSON("vm", vm.Finalizers, vm.Status))
	}
	for _, vmi := range kube.List[kubevirt.VirtualMachineInstance](s.kube, s.namespace) {
		b.WriteString(inJSON("vmi "+vmi.Name, vmi.Finalizers, vmi.Status))
	}
	for _, m := range kube.List[kubevirt.VirtualMachineInstanceMigration](s.kube, s.namespace) {
		b.WriteString(inJSON("migration "+m.Name, m.Finalizers, m.Status))
	}
	for _, pod := range kube.List[corev1.Pod](s.kube, s.namespace) {
		b.WriteString(inJSON("pod "+pod.Name, pod.ObjectMeta, pod.Status))
	}
	return b.String()
}

func inJSON(what string, parts ...any) string {
	out, err := json.Marshal(parts)
	if err != nil {
		return err.Error()
	}
	return what + ": " + string(out) + "\n"
}
