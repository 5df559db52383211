package world

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// Scenario is one story with a wanted end.
type Scenario struct {
	Name    string
	Options Options
	// Story does what users do, and what happens to the cluster.
	Story func(w *World)
	// Want returns nil once the wanted end is reached, else what is missing.
	Want func(w *World) error
}

// How long a story may take to reach its end: without faults, and with faults that last for an hour.
const (
	patience         = 30 * time.Minute
	longPatience     = 3 * time.Hour
	deletionPatience = 45 * time.Minute
)

// vm is the name of the machine in most stories.
const vm = "web"

const key = Namespace + "/" + vm

// Play runs a scenario to its end: the story, the wanted end, and the deletion of everything.
func (s Scenario) Play(w *World) {
	w.Run(func(w *World) {
		s.Story(w)
		want := func(w *World) error {
			if err := s.Want(w); err != nil {
				return err
			}
			if err := w.checkMigrationsEnded(); err != nil {
				return err
			}
			if err := allStatusMatch(w); err != nil || w.fault != nil && !w.fault.Mode.isEngineFault() {
				return err
			}
			return w.checkEntities()
		}
		w.converge(want)
		w.took = w.Now().Sub(w.began)
		if w.fault != nil && w.fault.Mode.isEngineFault() {
			w.checkHealed()
			w.Sleep(putBackAfter + healTime)
			if err := want(w); err != nil {
				w.breakf("%s later: %v%s", putBackAfter+healTime, err, w.state())
			}
		}
		w.healed = true
		w.wipe()
		w.sample()
		w.checkOrders()
	})
}

// converge waits until the wanted end is reached. With a fault that lasts for ever, a status must show the failure
// instead.
func (w *World) converge(want func(*World) error) {
	limit := w.patience()
	if w.Until(limit, func() bool { return want(w) == nil }) {
		return
	}
	// no status shows the failure while an attempt is made
	if w.fault != nil && w.fault.Mode == Forever && w.faultHit > 0 && w.Until(10*time.Minute, w.isFailureShown) {
		return
	}
	w.breakf("after %s: %v%s", limit, want(w), w.state())
}

// patience returns how long the story may take to reach its end, with the fault that is injected.
func (w *World) patience() time.Duration {
	if w.fault != nil && (w.fault.Mode == Hour || w.fault.Mode == HourAfter) {
		return longPatience
	}
	return patience
}

// isFailureShown reports whether users can see what failed: in a condition or, where that cannot be written, in the
// workflow's query.
func (w *World) isFailureShown() bool {
	return strings.Contains(w.state(), "injected")
}

// state returns what users can see of the machines.
func (w *World) state() string {
	var b strings.Builder
	for _, m := range kube.List[kubevirt.VirtualMachine](w.Kube, Namespace) {
		fmt.Fprintf(&b, "; VM %s: %s", m.Name, m.Status.PrintableStatus)
		for _, c := range m.Status.Conditions {
			fmt.Fprintf(&b, " %s=%s %s %q", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, m := range kube.List[kubevirt.VirtualMachineInstance](w.Kube, Namespace) {
		fmt.Fprintf(&b, "; VMI %s: %s", m.Name, m.Status.Phase)
		for _, c := range m.Status.Conditions {
			fmt.Fprintf(&b, " %s=%s %s %q", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, m := range kube.List[kubevirt.VirtualMachineInstanceReplicaSet](w.Kube, Namespace) {
		fmt.Fprintf(&b, "; replica set %s: %d", m.Name, m.Status.Replicas)
		for _, c := range m.Status.Conditions {
			fmt.Fprintf(&b, " %s=%s %s %q", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, m := range w.Migrations() {
		fmt.Fprintf(&b, "; migration %s: %s", m.Name, m.Status.Phase)
		for _, c := range m.Status.Conditions {
			fmt.Fprintf(&b, " %s=%s %s %q", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, o := range w.orders {
		fmt.Fprintf(&b, "; %s: %s %s", o.ID, o.Answer, o.Message)
	}
	for _, id := range w.workflows.names() {
		fmt.Fprintf(&b, "; %s waits for %s", id, w.waitText(id))
	}
	return b.String()
}

// wipe repairs the cluster and deletes everything. Nothing may be left.
func (w *World) wipe() {
	for _, name := range []string{"node1", "node2"} {
		if h := w.hosts[name]; !h.isAlive() {
			w.InService(name)
			w.Return(name)
		}
	}
	for _, m := range kube.List[kubevirt.VirtualMachine](w.Kube, Namespace) {
		if m.DeletionTimestamp == nil {
			w.Delete(m.Name)
		}
	}
	for _, m := range kube.List[kubevirt.VirtualMachineInstanceReplicaSet](w.Kube, Namespace) {
		if m.DeletionTimestamp == nil {
			w.DeleteSet(m.Name)
		}
	}
	for _, m := range kube.List[kubevirt.VirtualMachineInstance](w.Kube, Namespace) {
		if m.DeletionTimestamp == nil && metav1.GetControllerOf(m) == nil {
			w.DeleteInstance(m.Name)
		}
	}
	for _, m := range w.Migrations() {
		_ = kube.Remove[kubevirt.VirtualMachineInstanceMigration](w.Kube, m.Namespace, m.Name, nil)
	}
	over := func() bool {
		return len(kube.List[kubevirt.VirtualMachine](w.Kube, Namespace)) == 0 &&
			len(kube.List[kubevirt.VirtualMachineInstanceReplicaSet](w.Kube, Namespace)) == 0 &&
			len(kube.List[kubevirt.VirtualMachineInstance](w.Kube, Namespace)) == 0 &&
			len(kube.List[corev1.Pod](w.Kube, Namespace)) == 0 && len(w.Migrations()) == 0 && w.entities() == 0 &&
			w.delivery.isIdle()
	}
	w.Until(deletionPatience, over)
	w.Sleep(time.Second)
	w.Until(deletionPatience, over) // a late signal may start an entity again, which then ends by itself
	w.expectClean()
}

// entities counts the workflows of machines.
func (w *World) entities() int {
	n := 0
	for _, id := range w.workflows.names() {
		if !isClusterWide(w.workflows.runs[id].kind) {
			n++
		}
	}
	return n
}

// isClusterWide reports whether workflows of a type run without machines.
func isClusterWide(kind string) bool {
	return kind == contract.WorkflowNode || kind == contract.WorkflowAdmission ||
		kind == contract.WorkflowWorkloadUpdate
}

// Wanted ends.

// wantRunning wants the VM Running, with one domain and without pending requests.
func wantRunning(name string) func(*World) error {
	return func(w *World) error {
		v := w.VM(name)
		switch {
		case v == nil:
			return fmt.Errorf("VM %s is gone", name)
		case v.Status.PrintableStatus != kubevirt.VirtualMachineStatusRunning || !v.Status.Ready:
			return fmt.Errorf("VM %s is %q, ready %t, and not Running", name, v.Status.PrintableStatus, v.Status.Ready)
		case w.Domains(Namespace+"/"+name) != 1:
			return fmt.Errorf("VM %s has status Running and %d domains", name, w.Domains(Namespace+"/"+name))
		case len(v.Status.StateChangeRequests) > 0:
			return fmt.Errorf("VM %s still has requests %v", name, v.Status.StateChangeRequests)
		}
		return wantInstanceRunning(name)(w)
	}
}

// wantInstanceRunning wants the instance Running and Ready, with one domain.
func wantInstanceRunning(name string) func(*World) error {
	return func(w *World) error {
		v := w.VMI(name)
		switch {
		case v == nil:
			return fmt.Errorf("VMI %s is not there", name)
		case v.Status.Phase != kubevirt.Running:
			return fmt.Errorf("VMI %s is %s", name, v.Status.Phase)
		case w.Domains(Namespace+"/"+name) != 1:
			return fmt.Errorf("VMI %s has %d domains", name, w.Domains(Namespace+"/"+name))
		case !kube.Ready(v):
			return fmt.Errorf("VMI %s is not Ready", name)
		}
		return nil
	}
}

// wantStopped wants the VM Stopped, without an instance or a domain.
func wantStopped(name string) func(*World) error {
	return func(w *World) error {
		v := w.VM(name)
		switch {
		case v == nil:
			return fmt.Errorf("VM %s is gone", name)
		case w.VMI(name) != nil:
			return fmt.Errorf("VM %s still has an instance", name)
		case w.Domains(Namespace+"/"+name) != 0:
			return fmt.Errorf("VM %s still has a domain", name)
		case v.Status.PrintableStatus != kubevirt.VirtualMachineStatusStopped || v.Status.Created:
			return fmt.Errorf("VM %s is %q, created %t, and not Stopped", name, v.Status.PrintableStatus,
				v.Status.Created)
		}
		return nil
	}
}

// wantGone wants the VM, its instance and its pod gone.
func wantGone(name string) func(*World) error {
	return func(w *World) error {
		if w.VM(name) != nil || w.VMI(name) != nil || w.Pod(name) != nil {
			return fmt.Errorf("VM %s is not gone", name)
		}
		return nil
	}
}

// wantDesired wants what the VM's run strategy asks for at the end.
func wantDesired(name string) func(*World) error {
	return func(w *World) error {
		v := w.VM(name)
		switch {
		case v == nil:
			return wantGone(name)(w)
		case *v.Spec.RunStrategy == kubevirt.RunStrategyHalted:
			return wantStopped(name)(w)
		default:
			return wantRunning(name)(w)
		}
	}
}

// Steps that stories share.

// up creates the VM and waits until its guest runs. With a fault that lasts for ever it may never run; the story then
// continues without it.
func up(w *World) { upAs(w, Machine(vm, kubevirt.RunStrategyAlways)) }

// upAs creates a VM and waits until its guest runs.
func upAs(w *World, machine *kubevirt.VirtualMachine) {
	w.Create(machine)
	w.Until(w.patience(), func() bool { return wantRunning(vm)(w) == nil })
}

// down waits until the VM's instance is being deleted.
func down(w *World) {
	w.Until(w.patience(), func() bool { v := w.VMI(vm); return v == nil || v.DeletionTimestamp != nil })
}
