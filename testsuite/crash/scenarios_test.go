//go:build crash

package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	crdkube "github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/workflows/contract"
)

const vmName = "web"

// scenario is something that is asked for, and what must come of it.
type scenario struct {
	name string
	// prepare brings the objects to where the scenario begins; nothing is counted and nobody is killed.
	prepare func(*story) error
	// act asks.
	act func(*story) error
	// done says what is missing.
	done func(*story) error
	// makes is what is made on the way, from the beginning on, and no more than that.
	makes counts
}

func scenarios() []scenario {
	return []scenario{
		{"start", none, func(s *story) error {
			return s.createVM(kubevirt.RunStrategyAlways)
		}, func(s *story) error { return s.running(1, 1) }, counts{1, 1, 1}},
		{"stop", running, func(s *story) error {
			return s.strategy(kubevirt.RunStrategyHalted)
		}, (*story).stopped, counts{1, 1, 1}},
		{"restart", running, (*story).restart, func(s *story) error { return s.running(2, 1) }, counts{2, 2, 2}},
		{"crash loop", none, func(s *story) error {
			s.plan(planRefuse)
			return s.createVM(kubevirt.RunStrategyAlways)
		}, func(s *story) error { return s.running(2, 1) }, counts{2, 2, 1}},
		{"panic", running, (*story).panics, func(s *story) error { return s.running(2, 1) }, counts{2, 2, 2}},
		{"delete", running, (*story).delete, (*story).gone, counts{1, 1, 1}},
		{
			"scale", func(s *story) error { return s.createSet(0) }, func(s *story) error { return s.scale(2) },
			func(s *story) error { return s.replicas(2) }, counts{2, 2, 2},
		},
	}
}

func none(*story) error { return nil }

func running(s *story) error {
	if err := s.createVM(kubevirt.RunStrategyAlways); err != nil {
		return err
	}
	return await(patience, func() error { return s.running(1, 1) })
}

// story is one scenario in a namespace of its own.
type story struct {
	*lane
	*follower
	namespace string
	writes    int // of the control worker, to Kubernetes, until the end was reached

	mu        sync.Mutex
	following map[string]chan struct{}
}

// play runs a scenario to its end, and cleans up. Begins is called when what is asked for is asked for, and counted
// after each event from then on. It returns what the cluster was like at the end.
func (l *lane) play(
	sc scenario, namespace string, begins func(), counted func(int),
) (s *story, summary string, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s = &story{lane: l, namespace: namespace, following: map[string]chan struct{}{}}
	s.follower = follow(ctx, l.temporal, counted)
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
	begins()
	if err := sc.act(s); err != nil {
		return s, "", fmt.Errorf("asking: %w", err)
	}
	if err := await(patience, func() error { return errors.Join(sc.done(s), s.settled()) }); err != nil {
		return s, "", fmt.Errorf("the end is not reached: %w", err)
	}
	summary, s.writes = s.summary(), l.stopWrites()
	if made := s.machine.total(namespace); made != sc.makes {
		err = fmt.Errorf("made were %+v instead of %+v", made, sc.makes)
	}
	return s, summary, errors.Join(err, s.clean())
}

// follow follows an entity, or says that there may be a new run of it.
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

// settled fails while transitions are open, or something has just happened.
func (s *story) settled() error {
	if open, _ := s.transitions(); len(open) > 0 {
		return fmt.Errorf("open: %v", open)
	}
	s.follower.mu.Lock()
	defer s.follower.mu.Unlock()
	if time.Since(s.last) < 300*time.Millisecond {
		return errors.New("it goes on")
	}
	return nil
}

// clean deletes everything as a user would, and fails when anything is left.
func (s *story) clean() error {
	_ = kube.Remove[kubevirt.VirtualMachine](s.kube, s.namespace, vmName, nil)
	_ = kube.Remove[kubevirt.VirtualMachineInstanceReplicaSet](s.kube, s.namespace, vmName, nil)
	if err := await(patience, s.gone); err != nil {
		return fmt.Errorf("no clean slate: %w", err)
	}
	if err := await(patience, s.entities); err != nil {
		return fmt.Errorf("no clean slate: %w", err)
	}
	return nil
}

// summary is the outcome in words, the same in each run: what there is, what it says of itself, what was made on the
// way, and how the transitions ended.
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
	if set := kube.Get[kubevirt.VirtualMachineInstanceReplicaSet](s.kube, s.namespace, vmName); set != nil {
		fmt.Fprintln(&b, set.Status.Replicas, set.Status.ReadyReplicas)
	}
	fmt.Fprintf(&b, "made %+v\n", s.machine.total(s.namespace))
	_, closed := s.transitions()
	fmt.Fprintln(&b, closed)
	return b.String()
}

// names are the objects of the story.
func (s *story) names() []string {
	return slices.DeleteFunc(s.kube.Names(), func(n string) bool { return !strings.Contains(n, "/"+s.namespace+"/") })
}

func (s *story) createVM(strategy kubevirt.VirtualMachineRunStrategy) error {
	_, err := kube.Put(s.kube, &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: vmName},
		Spec:       kubevirt.VirtualMachineSpec{RunStrategy: &strategy, Template: s.template()},
	})
	return err
}

func (s *story) template() *kubevirt.VirtualMachineInstanceTemplateSpec {
	memory := resource.MustParse("128Mi")
	return &kubevirt.VirtualMachineInstanceTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": vmName},
			Finalizers: []string{contract.FinalizerVMI}},
		Spec: kubevirt.VirtualMachineInstanceSpec{
			Domain: kubevirt.DomainSpec{Memory: &kubevirt.Memory{Guest: &memory}},
			Volumes: []kubevirt.Volume{
				{Name: "root", VolumeSource: kubevirt.VolumeSource{
					ContainerDisk: &kubevirt.ContainerDiskSource{Image: "localhost/guest:1"}}},
			},
		},
	}
}

func (s *story) createSet(n int32) error {
	_, err := kube.Put(s.kube, &kubevirt.VirtualMachineInstanceReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: vmName},
		Spec: kubevirt.VirtualMachineInstanceReplicaSetSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": vmName}},
			Template: s.template(),
		},
	})
	return err
}

// persist repeats an edit that met a newer object, as a client does.
func persist(edit func() error) error {
	return await(5*time.Second, edit)
}

func (s *story) scale(n int32) error {
	return persist(func() error {
		_, err := kube.Edit(s.kube, s.namespace, vmName, "", func(set *kubevirt.VirtualMachineInstanceReplicaSet) {
			set.Spec.Replicas = &n
		})
		return err
	})
}

func (s *story) strategy(strategy kubevirt.VirtualMachineRunStrategy) error {
	return persist(func() error {
		_, err := kube.Edit(s.kube, s.namespace, vmName, "", func(vm *kubevirt.VirtualMachine) {
			vm.Spec.RunStrategy = &strategy
		})
		return err
	})
}

// restart asks as the API server's subresource does.
func (s *story) restart() error {
	vmi := kube.Get[kubevirt.VirtualMachineInstance](s.kube, s.namespace, vmName)
	if vmi == nil {
		return errors.New("there is no instance to restart")
	}
	return persist(func() error {
		_, err := kube.Edit(s.kube, s.namespace, vmName, "status", func(vm *kubevirt.VirtualMachine) {
			vm.Status.StateChangeRequests = []kubevirt.VirtualMachineStateChangeRequest{
				{Action: kubevirt.StopRequest, UID: &vmi.UID}, {Action: kubevirt.StartRequest}}
		})
		return err
	})
}

// delete asks as the API server does: who deletes is reported first.
func (s *story) delete() error {
	vm := kube.Get[kubevirt.VirtualMachine](s.kube, s.namespace, vmName)
	if vm == nil {
		return errors.New("there is no VM to delete")
	}
	report := contract.RequestReport{UID: string(vm.UID), ResourceVersion: vm.ResourceVersion,
		Operation: contract.OperationDelete, Actor: "carol"}
	if err := s.lane.temporal.SignalWorkflow(s.ctx, contract.VMID(s.namespace, vmName), "",
		contract.SignalReportRequest, report); err != nil {
		return err
	}
	return kube.Remove[kubevirt.VirtualMachine](s.kube, s.namespace, vmName, nil)
}

func (s *story) plan(p string) {
	s.machine.mu.Lock()
	defer s.machine.mu.Unlock()
	s.machine.plans[s.namespace+"/"+vmName] = p
}

func (s *story) panics() error {
	s.machine.work <- func() {
		for _, l := range s.machine.launchers {
			if l.namespace == s.namespace {
				s.machine.off(l, contract.DomainCrashed, contract.ReasonCrashed)
			}
		}
	}
	return nil
}

// running: that many instances were made so far, and the last runs that many domains.
func (s *story) running(instances, domains int) error {
	vm := kube.Get[kubevirt.VirtualMachine](s.kube, s.namespace, vmName)
	vmi := kube.Get[kubevirt.VirtualMachineInstance](s.kube, s.namespace, vmName)
	switch {
	case vm == nil || vmi == nil:
		return s.says()
	case vm.Status.PrintableStatus != kubevirt.VirtualMachineStatusRunning || !vm.Status.Ready ||
		vmi.Status.Phase != kubevirt.Running:
		return s.says()
	case s.machine.total(s.namespace).instances < instances:
		return fmt.Errorf("made: %+v", s.machine.total(s.namespace))
	case s.machine.domains(s.namespace) != domains:
		return fmt.Errorf("%d domains run", s.machine.domains(s.namespace))
	}
	return nil
}

func (s *story) stopped() error {
	vm := kube.Get[kubevirt.VirtualMachine](s.kube, s.namespace, vmName)
	if vm == nil || vm.Status.PrintableStatus != kubevirt.VirtualMachineStatusStopped ||
		len(kube.List[corev1.Pod](s.kube, s.namespace)) > 0 || s.machine.domains(s.namespace) > 0 {
		return s.says()
	}
	return nil
}

func (s *story) replicas(n int32) error {
	set := kube.Get[kubevirt.VirtualMachineInstanceReplicaSet](s.kube, s.namespace, vmName)
	if set == nil || set.Status.Replicas != n || set.Status.ReadyReplicas != n ||
		s.machine.domains(s.namespace) != int(n) {
		return s.says()
	}
	return nil
}

// gone: nothing is left of anything.
func (s *story) gone() error {
	if left := s.names(); len(left) > 0 || s.machine.domains(s.namespace) > 0 {
		return s.says()
	}
	return nil
}

// says is what a person would look at, put together when somebody does.
func (s *story) says() error { return landscape{s} }

type landscape struct{ story *story }

// Error is what there is.
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
