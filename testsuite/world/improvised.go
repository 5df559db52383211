package world

import (
	"fmt"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Improvised is a scenario of arbitrary steps. Once they are over and the cluster is whole again, every machine must
// get to where its run strategy wants it, whatever went before.
func Improvised(steps []func(*World)) Scenario {
	return Scenario{
		Name: "improvised",
		Story: func(w *World) {
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			for _, s := range steps {
				s(w)
			}
			for _, name := range []string{"node1", "node2"} {
				w.InService(name)
				if !w.hosts[name].alive() {
					w.Return(name)
				}
			}
			w.StartCRDWatch()
			w.unpause(vm)
		},
		Want: settled,
	}
}

// settled says that nothing of any machine is between two states.
func settled(w *World) error {
	if v := w.VM(vm); v != nil {
		switch *v.Spec.RunStrategy {
		case kubevirt.RunStrategyManual, kubevirt.RunStrategyRerunOnFailure:
			if err := consistent(w, v); err != nil {
				return err
			}
		default:
			if err := asDesired(vm)(w); err != nil {
				return err
			}
		}
	}
	if s := w.Set(set); s != nil {
		return scaled(int(*s.Spec.Replicas))(w)
	}
	return nil
}

// consistent: what the VM says is what is there, where its strategy leaves open which that is.
func consistent(w *World, v *kubevirt.VirtualMachine) error {
	n, said := w.Domains(key), v.Status.PrintableStatus
	// As in KubeVirt, instances that never ran are told of also where the strategy leaves it at that.
	off := said == kubevirt.VirtualMachineStatusStopped || said == kubevirt.VirtualMachineStatusCrashLoopBackOff
	if said == kubevirt.VirtualMachineStatusRunning && n == 1 || off && n == 0 {
		return nil
	}
	return fmt.Errorf("VM %s says %q and has %d domains", v.Name, said, n)
}

// unpause waits until what is paused is said to be, and lets it go on.
func (w *World) unpause(name string) {
	w.Until(w.patience(), func() bool { return shown(w, name) == nil })
	if err := shown(w, name); err != nil {
		w.breakf("%v%s", err, w.state())
	}
	held := func() bool { l := w.Launcher(name); return l != nil && l.domain.State == contract.DomainPaused }
	if held() {
		w.urge(name, contract.OperationUnpause, 0, func() bool { return !held() })
	}
}

// StopCRDWatch leaves the cluster unobserved; StartCRDWatch is a new leader.
func (w *World) StopCRDWatch() {
	w.tracef("crdwatch: gone")
	w.delivery.down = true
}

// StartCRDWatch is a new leader.
func (w *World) StartCRDWatch() {
	w.tracef("crdwatch: leads")
	w.delivery.reread()
}

// GuestPowersOff ends the guest of a VM from within.
func (w *World) GuestPowersOff(name string) {
	if l := w.Launcher(name); l != nil && l.host.powered {
		l.powersOff()
	}
}

// GuestPanics is the other way.
func (w *World) GuestPanics(name string) {
	if l := w.Launcher(name); l != nil && l.host.powered {
		l.panics()
	}
}
