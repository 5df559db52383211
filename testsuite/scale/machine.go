package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

// machine is the observed state of one VM and its VMI.
type machine struct {
	VM, VMI     bool   // the objects exist
	Ready       bool   // the VM's
	UID         string // the VMI's
	Running     bool   // the VMI's
	Failure     string // the message of the VM's condition Failure, or that the VMI has failed
	asked, done time.Time
	before      string // the VMI's UID at the request for its replacement
}

// observeVM processes a VM; nil: it is gone.
func (m *machine) observeVM(vm *kubevirt.VirtualMachine) {
	if m.VM, m.Ready, m.Failure = vm != nil, false, ""; vm == nil {
		return
	}
	m.Ready = vm.Status.Ready
	for _, c := range vm.Status.Conditions {
		if c.Type == kubevirt.VirtualMachineFailure && c.Status == corev1.ConditionTrue {
			m.Failure = c.Reason + ": " + c.Message
		}
	}
}

// observeVMI processes a VMI; nil: it is gone.
func (m *machine) observeVMI(vmi *kubevirt.VirtualMachineInstance) {
	if m.VMI, m.UID, m.Running = vmi != nil, "", false; vmi != nil {
		m.UID, m.Running = string(vmi.UID), vmi.Status.Phase == kubevirt.Running
		if vmi.Status.Phase == kubevirt.Failed {
			m.Failure = "the VMI is Failed"
		}
	}
}

// runs reports whether the VMI runs. Steps wait until it or one of the functions below holds.
func runs(m *machine) bool     { return m.Running }
func started(m *machine) bool  { return m.VM && m.Ready && m.Running }
func replaced(m *machine) bool { return started(m) && m.UID != m.before }
func gone(m *machine) bool     { return !m.VM && !m.VMI }
