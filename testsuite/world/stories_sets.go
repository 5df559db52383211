package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// set is the name of the replica set in most stories.
const set = "farm"

// scaled wants a set to have so many instances, all of them ready.
func scaled(want int) func(*World) error {
	return func(w *World) error {
		s := w.Set(set)
		if s == nil {
			return fmt.Errorf("replica set %s is gone", set)
		}
		there := 0
		for _, v := range kube.List[kubevirt.VirtualMachineInstance](w.Kube, Namespace) {
			if metav1.IsControlledBy(v, s) {
				there++
			}
		}
		if there != want || int(s.Status.Replicas) != want || int(s.Status.ReadyReplicas) != want {
			return fmt.Errorf("replica set %s has %d instances, %d and %d ready in its status, want %d", set, there,
				s.Status.Replicas, s.Status.ReadyReplicas, want)
		}
		return nil
	}
}

// grown creates a set of two and waits until both run.
func grown(w *World) {
	w.CreateSet(set, 2)
	w.Until(w.patience(), func() bool { return scaled(2)(w) == nil })
}

func setStories() []Scenario {
	return []Scenario{
		{Name: "scale-up", Story: func(w *World) { grown(w); w.Scale(set, 4) }, Want: scaled(4)},
		{Name: "scale-down", Story: func(w *World) { grown(w); w.Scale(set, 1) }, Want: scaled(1)},
		{Name: "scale-superseded", Story: func(w *World) {
			w.CreateSet(set, 4)
			w.Sleep(400 * time.Millisecond)
			w.Scale(set, 1)
			w.Sleep(time.Second)
			w.Scale(set, 2)
		}, Want: scaled(2)},
		{Name: "replica-lost", Story: func(w *World) {
			grown(w)
			if len(w.domains) > 0 {
				w.victim = w.domains[0].key()
				w.domains[0].panics()
			}
		}, Want: func(w *World) error {
			for _, v := range kube.List[kubevirt.VirtualMachineInstance](w.Kube, Namespace) {
				if v.Namespace+"/"+v.Name == w.victim {
					return fmt.Errorf("the instance %s, whose guest has panicked, is still there", v.Name)
				}
			}
			if n := len(w.domains); n != 2 {
				return fmt.Errorf("%d domains run, wanted are 2", n)
			}
			return scaled(2)(w)
		}},
		{Name: "set-deleted", Story: func(w *World) { grown(w); w.DeleteSet(set) }, Want: func(w *World) error {
			if w.Set(set) != nil || len(kube.List[kubevirt.VirtualMachineInstance](w.Kube, Namespace)) > 0 ||
				len(kube.List[corev1.Pod](w.Kube, Namespace)) > 0 {
				return fmt.Errorf("replica set %s or something of it is not gone", set)
			}
			return nil
		}},
	}
}

func controlStories() []Scenario {
	entity := contract.VMID(Namespace, vm)
	return []Scenario{
		{Name: "held-and-released", Story: func(w *World) {
			up(w)
			w.Control(entity, contract.ControlHold, contract.ControlRequest{Reason: "maintenance"})
			w.Sleep(time.Second)
			if l := w.Launcher(vm); l != nil {
				l.powersOff()
			}
			w.Sleep(5 * time.Minute)
			if m := w.VM(vm); w.Started[key] > 1 && m != nil && isHeld(m) {
				w.breakf("a machine that is held was started")
			}
			// An older copy of Temporal's database may have the hold.
			w.repeatControl(contract.ControlRelease, entity, 1)
		}, Want: restarted},
		{Name: "approved", Story: func(w *World) {
			m := Machine(vm, kubevirt.RunStrategyAlways)
			m.Annotations = map[string]string{contract.AnnotationApproval: "start"}
			w.Create(m)
			w.Sleep(2 * time.Minute)
			if w.Started[key] > 0 {
				w.breakf("a machine was started that waits for approval")
			}
			w.repeatControl(contract.ControlApprove, entity, 0)
		}, Want: wantRunning(vm)},
		{Name: "fence-confirmed", Story: func(w *World) {
			up(w)
			node := w.guestsNode()
			w.PowerOff(node)
			w.Sleep(8 * time.Minute)
			w.confirmOff(node)
			w.repeatControl(contract.ControlFenceConfirmed, contract.VMIID(Namespace, vm), 1)
		}, Want: restarted},
	}
}

// repeatControl sends a control now and then, as long as the machine has had no more domains than before, as a person
// would. With an older copy of etcd without the hold, it has had one more already.
func (w *World) repeatControl(control, entity string, before int) {
	w.Until(w.patience(), func() bool {
		if w.Started[key] > before {
			return true
		}
		w.Control(entity, control, contract.ControlRequest{})
		w.Sleep(time.Minute)
		return w.Started[key] > before
	})
}

// confirmOff records that a person has confirmed that a node is off: no guest can run there any more.
func (w *World) confirmOff(node string) {
	for k, n := range w.possiblyRunning {
		if n == node {
			delete(w.possiblyRunning, k)
		}
	}
}
