//go:build crash

package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/kube"
)

const vmName = "web"

// scenario is a request, and the end that it must reach.
type scenario struct {
	name string
	// prepare creates the scenario's objects. Nothing is counted or killed meanwhile.
	prepare func(*story) error
	// act makes the request.
	act func(*story) error
	// done returns what is missing.
	done func(*story) error
	// makes is what is created from the beginning on, and no more than that.
	makes counts
	// crdwatch: crdwatch is killed in it as well.
	crdwatch bool
}

// scenarios has, for each kind of entity, one in which crdwatch is killed as well.
func scenarios() []scenario {
	start := func(s *story) error { return s.createVM(kubevirt.RunStrategyAlways) }
	noReplicas := func(s *story) error { return s.createSet(0) }
	scale := func(s *story) error { return s.scale(2) }
	return []scenario{
		{"start", none, start, func(s *story) error { return s.checkRunning(1, 1) }, counts{1, 1, 1}, true},
		{"stop", running, func(s *story) error {
			return s.strategy(kubevirt.RunStrategyHalted)
		}, (*story).checkStopped, counts{1, 1, 1}, false},
		{"restart", running, (*story).restart, func(s *story) error { return s.checkRunning(2, 1) },
			counts{2, 2, 2}, false},
		{"crash loop", none, func(s *story) error {
			s.setPlan(planRefuse)
			return start(s)
		}, func(s *story) error { return s.checkRunning(2, 1) }, counts{2, 2, 1}, false},
		{"panic", running, (*story).panicGuests, func(s *story) error { return s.checkRunning(2, 1) },
			counts{2, 2, 2}, false},
		{"delete", running, (*story).delete, (*story).checkNothingLeft, counts{1, 1, 1}, false},
		{"scale", noReplicas, scale, func(s *story) error { return s.checkReplicas(2) }, counts{2, 2, 2}, true},
		{"node", none, (*story).createNode, (*story).labelled, counts{}, true},
		{"continue-as-new in a start", none, midway(start, 1),
			closeReported(func(s *story) error { return s.checkRunning(1, 1) }),
			counts{1, 1, 1}, true},
		{"continue-as-new in a scale", noReplicas, midway(scale, 2),
			closeReported(func(s *story) error { return s.checkReplicas(2) }), counts{2, 2, 2}, false},
		{"migrate", running, (*story).migrate, (*story).moved, counts{1, 2, 1}, true},
		{"drain", running, (*story).evict, (*story).drained, counts{1, 2, 1}, false},
	}
}

// midway begins a transition, and has every entity continue as new in the middle of it: while so many pods are
// unschedulable.
func midway(begin func(*story) error, pods int) func(*story) error {
	return func(s *story) error {
		s.machine.setFull(s.namespace, true)
		if err := begin(s); err != nil {
			return err
		}
		waiting := func() error { return s.waiting(pods) }
		if err := await(patience, waiting); err != nil {
			return err
		}
		ids := s.followed()
		for _, id := range ids {
			if err := await(patience, func() error {
				return s.lane.temporal.SignalWorkflow(s.ctx, id, "", contract.SignalContinueAsNew, struct{}{})
			}); err != nil {
				return fmt.Errorf("requesting %s to continue as new: %w", id, err)
			}
		}
		if err := await(patience, func() error { return s.continued(ids) }); err != nil {
			return err
		}
		if err := waiting(); err != nil {
			return fmt.Errorf("that was not in the middle of the transition: %w", err)
		}
		s.machine.setFull(s.namespace, false)
		return nil
	}
}

// closeReported returns done, and checks that the runs that have not opened the transition have received its close.
func closeReported(done func(*story) error) func(*story) error {
	return func(s *story) error {
		if err := done(s); err != nil {
			return err
		}
		for _, id := range s.followed() {
			ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
			answer, err := s.lane.temporal.QueryWorkflow(ctx, id, "", contract.QueryState)
			cancel()
			if err != nil {
				return err
			}
			var state struct {
				Open *struct {
					ID string `json:"id"`
				} `json:"open"`
			}
			if err := answer.Get(&state); err != nil {
				return err
			}
			if state.Open != nil {
				return fmt.Errorf("%s has the open transition %s", id, state.Open.ID)
			}
		}
		return nil
	}
}

// waiting checks that a transition is open, and that there are that many pods.
func (s *story) waiting(pods int) error {
	if open, _ := s.transitions(); len(open) == 0 || len(kube.List[corev1.Pod](s.kube, s.namespace)) != pods {
		return fmt.Errorf("open: %v\n%w", open, s.stateError())
	}
	return nil
}

func none(*story) error { return nil }

func running(s *story) error {
	if err := s.createVM(kubevirt.RunStrategyAlways); err != nil {
		return err
	}
	return await(patience, func() error { return s.checkRunning(1, 1) })
}

func (s *story) createVM(strategy kubevirt.VirtualMachineRunStrategy) error {
	_, err := kube.Put(s.kube, &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: vmName},
		Spec:       kubevirt.VirtualMachineSpec{RunStrategy: &strategy, Template: s.template()},
	})
	return err
}

func (s *story) template() *kubevirt.VirtualMachineInstanceTemplateSpec {
	memory, strategy := resource.MustParse("128Mi"), kubevirt.EvictionStrategyLiveMigrate
	return &kubevirt.VirtualMachineInstanceTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": vmName},
			Finalizers: []string{contract.FinalizerVMI}},
		Spec: kubevirt.VirtualMachineInstanceSpec{
			EvictionStrategy: &strategy,
			Domain:           kubevirt.DomainSpec{Memory: &kubevirt.Memory{Guest: &memory}},
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

// migrate creates a migration, as admission would.
func (s *story) migrate() error {
	_, err := kube.Put(s.kube, &kubevirt.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: vmName,
			Labels:     map[string]string{kubevirt.MigrationSelectorLabel: vmName},
			Finalizers: []string{contract.FinalizerMigration}},
		Spec: kubevirt.VirtualMachineInstanceMigrationSpec{VMIName: vmName},
	})
	return err
}

// moved checks that the guest is on the other node, and nothing is left on the first.
func (s *story) moved() error {
	vmi := kube.Get[kubevirt.VirtualMachineInstance](s.kube, s.namespace, vmName)
	all := kube.List[kubevirt.VirtualMachineInstanceMigration](s.kube, s.namespace)
	switch {
	case len(all) != 1 || vmi == nil || all[0].Status.Phase != kubevirt.MigrationSucceeded ||
		len(all[0].Finalizers) > 0:
		return s.stateError()
	case vmi.Status.NodeName != otherNode || len(vmi.Status.ActivePods) != 1 || vmi.Status.MigrationState == nil ||
		!vmi.Status.MigrationState.Completed:
		return s.stateError()
	case len(kube.List[corev1.Pod](s.kube, s.namespace)) != 1:
		return s.stateError()
	}
	return s.checkRunning(1, 1)
}

// evict marks the guest for evacuation, as the eviction webhook does. Its node outlives the scenario, and counts its
// drains.
func (s *story) evict() error {
	var node struct {
		Count int `json:"count"`
	}
	if err := await(patience, func() error { // the control worker that gets the request may be killed
		ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
		defer cancel()
		answer, err := s.lane.temporal.QueryWorkflow(ctx, contract.NodeID(nodeName), "", contract.QueryState)
		if err != nil {
			return err
		}
		return answer.Get(&node)
	}); err != nil {
		return err
	}
	s.follow(contract.DrainID(nodeName, node.Count+1))
	return persist(func() error {
		_, err := kube.Edit(s.kube, s.namespace, vmName, "", func(vmi *kubevirt.VirtualMachineInstance) {
			vmi.Status.EvacuationNodeName = nodeName
		})
		return err
	})
}

// drained checks that the guest has moved, no instance is marked for evacuation, and the drain has ended.
func (s *story) drained() error {
	vmi := kube.Get[kubevirt.VirtualMachineInstance](s.kube, s.namespace, vmName)
	if _, closed := s.transitions(); !slices.Contains(closed, "drain Completed") {
		return fmt.Errorf("closed: %v: %w", closed, s.stateError())
	}
	if vmi == nil || vmi.Status.EvacuationNodeName != "" {
		return s.stateError()
	}
	return s.moved()
}

// createNode creates a node without a node worker.
func (s *story) createNode() error {
	_, err := kube.Put(s.kube, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	return err
}

// labelled checks that the node is labelled as unschedulable for VMs.
func (s *story) labelled() error {
	s.follow(contract.NodeID(s.namespace))
	node := kube.Get[corev1.Node](s.kube, "", s.namespace)
	if node == nil || s.total() == 0 || node.Labels[contract.LabelSchedulable] != "false" {
		return s.stateError()
	}
	return nil
}

// persist repeats an edit after a conflict, as a client does.
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

// restart requests a restart, as the API server's subresource does.
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

func (s *story) delete() error {
	return deleteReported[kubevirt.VirtualMachine](s, contract.VMID(s.namespace, vmName))
}

func (s *story) deleteVMI() error {
	return deleteReported[kubevirt.VirtualMachineInstance](s, contract.VMIID(s.namespace, vmName))
}

// deleteReported deletes as the API server does: the user is reported first.
func deleteReported[T any, P interface {
	kube.Pointer[T]
	metav1.Object
}](s *story, workflowID string) error {
	object := kube.Get[T, P](s.kube, s.namespace, vmName)
	if object == nil {
		return fmt.Errorf("there is no %T to delete", object)
	}
	report := contract.RequestReport{UID: string(object.GetUID()), ResourceVersion: object.GetResourceVersion(),
		Operation: contract.OperationDelete, Actor: "carol"}
	if err := s.lane.temporal.SignalWorkflow(s.ctx, workflowID, "", contract.SignalReportRequest, report); err != nil {
		return err
	}
	return kube.Remove[T, P](s.kube, s.namespace, vmName, nil)
}

// setPlan sets what the machine does with the next instance.
func (s *story) setPlan(p string) {
	s.machine.mu.Lock()
	defer s.machine.mu.Unlock()
	s.machine.plans[s.namespace+"/"+vmName] = p
}

// panicGuests ends all guests of the story as a kernel panic does.
func (s *story) panicGuests() error {
	s.machine.work <- func() {
		for _, l := range s.machine.launchers {
			if l.namespace == s.namespace {
				s.machine.off(l, contract.DomainCrashed, contract.ReasonCrashed)
			}
		}
	}
	return nil
}

// checkRunning checks that so many instances were created so far, and the last runs that many domains.
func (s *story) checkRunning(instances, domains int) error {
	vm := kube.Get[kubevirt.VirtualMachine](s.kube, s.namespace, vmName)
	vmi := kube.Get[kubevirt.VirtualMachineInstance](s.kube, s.namespace, vmName)
	switch {
	case vm == nil || vmi == nil:
		return s.stateError()
	case vm.Status.PrintableStatus != kubevirt.VirtualMachineStatusRunning || !vm.Status.Ready ||
		vmi.Status.Phase != kubevirt.Running:
		return s.stateError()
	case s.machine.total(s.namespace).instances < instances:
		return fmt.Errorf("made: %+v", s.machine.total(s.namespace))
	case s.machine.domains(s.namespace) != domains:
		return fmt.Errorf("%d domains run", s.machine.domains(s.namespace))
	}
	return nil
}

// checkStopped checks that the VM has stopped, and that no pod or domain is left.
func (s *story) checkStopped() error {
	vm := kube.Get[kubevirt.VirtualMachine](s.kube, s.namespace, vmName)
	if vm == nil || vm.Status.PrintableStatus != kubevirt.VirtualMachineStatusStopped ||
		len(kube.List[corev1.Pod](s.kube, s.namespace)) > 0 || s.machine.domains(s.namespace) > 0 {
		return s.stateError()
	}
	return nil
}

// checkReplicas checks that the set has so many ready replicas, and that so many domains run.
func (s *story) checkReplicas(n int32) error {
	set := kube.Get[kubevirt.VirtualMachineInstanceReplicaSet](s.kube, s.namespace, vmName)
	if set == nil || set.Status.Replicas != n || set.Status.ReadyReplicas != n ||
		s.machine.domains(s.namespace) != int(n) {
		return s.stateError()
	}
	return nil
}

// checkNothingLeft checks that nothing is left.
func (s *story) checkNothingLeft() error {
	if left := s.names(); len(left) > 0 || s.machine.domains(s.namespace) > 0 {
		return s.stateError()
	}
	return nil
}
