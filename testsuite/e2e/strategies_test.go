//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// request writes state change requests, as the API server's account does for virtctl.
func (m *machine) request(list string) {
	m.t.Helper()
	m.kubectl("--as=system:serviceaccount:virtflow:virtflow-api-server", "patch", "vm", m.name, "--subresource=status",
		"--type=merge",
		"-p", `{"status":{"stateChangeRequests":[`+list+`]}}`)
}

func stopOf(vmi *kubevirt.VirtualMachineInstance) string {
	return fmt.Sprintf(`{"action":"Stop","uid":%q}`, vmi.UID)
}

const startIt = `{"action":"Start"}`

// untilReplaced waits until an instance of another UID runs, and has booted.
func (m *machine) untilReplaced(than *kubevirt.VirtualMachineInstance) *kubevirt.VirtualMachineInstance {
	m.t.Helper()
	until(m.t, bootTime, "another instance takes over", func() error {
		v, err := m.vmi()
		if err == nil && v.UID == than.UID {
			err = fmt.Errorf("instance %s is %s", v.UID, v.Status.Phase)
		}
		return err
	})
	return m.untilBooted()
}

// untilVM waits for a condition on the VM.
func (m *machine) untilVM(what string, check func(*kubevirt.VirtualMachine) bool) *kubevirt.VirtualMachine {
	m.t.Helper()
	var vm *kubevirt.VirtualMachine
	until(m.t, bootTime, what, func() (err error) {
		if vm, err = m.vm(); err == nil && !check(vm) {
			err = fmt.Errorf("it is %s, generations %d/%d, conditions %v", vm.Status.PrintableStatus,
				vm.Status.ObservedGeneration, vm.Status.DesiredGeneration, vm.Status.Conditions)
		}
		return err
	})
	return vm
}

func vmCondition(vm *kubevirt.VirtualMachine, kind string) *kubevirt.VirtualMachineCondition {
	for i := range vm.Status.Conditions {
		if string(vm.Status.Conditions[i].Type) == kind {
			return &vm.Status.Conditions[i]
		}
	}
	return nil
}

// withPanicDevice calls newMachine for a guest with a panic device. Without one, a guest that panics hangs, as in
// KubeVirt.
func withPanicDevice(t *testing.T, name, strategy string) *machine {
	t.Helper()
	m := &machine{t: t, namespace: newNamespace(t), name: name, taps: taps()}
	apply(t, strings.Replace(m.manifest(strategy, ""), "        devices:\n",
		"        devices:\n          panicDevices: [{model: isa}]\n", 1))
	return m
}

// TestGuestPanicUnderAlways: a guest that ran is started again at once, each time.
func TestGuestPanicUnderAlways(t *testing.T) {
	suite.TakeTurn(t, 1)
	m := withPanicDevice(t, "panics", "Always")
	vmi := m.untilBooted()
	for range 2 {
		m.inGuest("panic")
		vmi = m.untilReplaced(vmi)
	}
	vm, err := m.vm()
	require.NoError(t, err)
	require.Nil(t, vm.Status.StartFailure, "it ran, so there is no back-off")
	m.remove()
}

// TestCrashLoop: the back-off before an instance that never runs grows, and its end is in the status.
func TestCrashLoop(t *testing.T) {
	suite.TakeTurn(t, 3)
	m := &machine{t: t, namespace: newNamespace(t), name: "never"}
	broken := strings.Replace(m.manifest("Always", ""), `containerDisk: {image: "`,
		`containerDisk: {path: /disk/nothing.img, image: "`, 1)
	apply(t, broken)
	first := m.untilStatus("CrashLoopBackOff")
	require.Equal(t, 1, first.Status.StartFailure.ConsecutiveFailCount)
	require.NotNil(t, first.Status.StartFailure.RetryAfterTimestamp)
	t.Logf("first failure: next try at %s", first.Status.StartFailure.RetryAfterTimestamp)
	second := m.untilVM("the second instance has failed too", func(vm *kubevirt.VirtualMachine) bool {
		return vm.Status.StartFailure != nil && vm.Status.StartFailure.ConsecutiveFailCount == 2 &&
			vm.Status.PrintableStatus == kubevirt.VirtualMachineStatusCrashLoopBackOff
	})
	require.NotEqual(t, first.Status.StartFailure.LastFailedVMIUID, second.Status.StartFailure.LastFailedVMIUID)
	wait := second.Status.StartFailure.RetryAfterTimestamp.Sub(first.Status.StartFailure.RetryAfterTimestamp.Time)
	require.GreaterOrEqual(t, wait, 38*time.Second, "40 s and more after the second (in whole seconds)")
	t.Logf("second failure: next try at %s", second.Status.StartFailure.RetryAfterTimestamp)
	m.strategy("Halted")
	m.untilVM("the failure count is gone", func(vm *kubevirt.VirtualMachine) bool {
		return vm.Status.StartFailure == nil && vm.Status.PrintableStatus == kubevirt.VirtualMachineStatusStopped
	})
	m.remove()
}

// TestRerunOnFailure: a guest that panics is started again; one that powers off is started only on request.
func TestRerunOnFailure(t *testing.T) {
	suite.TakeTurn(t, 6)
	m := withPanicDevice(t, "rerun", "RerunOnFailure")
	first := m.untilBooted()
	m.inGuest("panic")
	second := m.untilReplaced(first)
	m.inGuest("poweroff")
	vm := m.untilVM("it is stopped, and its instance is gone", func(vm *kubevirt.VirtualMachine) bool {
		return vm.Status.PrintableStatus == kubevirt.VirtualMachineStatusStopped && !vm.Status.Created
	})
	require.Empty(t, vm.Status.StateChangeRequests)
	require.Equal(t, kubevirt.RunStrategyRerunOnFailure, vm.Status.RunStrategy)
	m.request(startIt)
	third := m.untilReplaced(second)
	m.request(stopOf(third))
	vm = m.untilVM("it is stopped as requested", func(vm *kubevirt.VirtualMachine) bool {
		return vm.Status.PrintableStatus == kubevirt.VirtualMachineStatusStopped && !vm.Status.Created
	})
	require.Empty(t, vm.Status.StateChangeRequests)
	m.remove()
}

// TestManual: every start and stop needs a request.
func TestManual(t *testing.T) {
	suite.TakeTurn(t, 4)
	m := newMachine(t, "manual", "Manual", "")
	m.untilStatus("Stopped")
	m.request(startIt)
	first := m.untilBooted()
	m.inGuest("poweroff")
	vm := m.untilStatus("Stopped")
	require.True(t, vm.Status.Created, "the ended instance stays")
	m.request(stopOf(first) + "," + startIt)
	second := m.untilReplaced(first)
	vm = m.untilStatus("Running")
	require.Empty(t, vm.Status.StateChangeRequests)

	// A guest that is started paused waits until a user unpauses it.
	m.request(stopOf(second) + `,{"action":"Start","data":{"paused":"true"}}`)
	m.untilStatus("Paused")
	third, err := m.vmi()
	require.NoError(t, err)
	require.NotEqual(t, second.UID, third.UID)
	require.Equal(t, kubevirt.StartStrategyPaused, *third.Spec.StartStrategy)
	m.request(stopOf(third))
	m.untilStatus("Stopped")
	m.remove()
}

// TestVMEdit: a running instance follows the changes that it can follow. The others are in the condition
// RestartRequired until a restart.
func TestVMEdit(t *testing.T) {
	suite.TakeTurn(t, 6)
	rollout := func(strategy string) {
		configured(t, `{"configuration":{"vmRolloutStrategy":"`+strategy+`"}}`)
	}
	t.Cleanup(func() { rollout("Stage") })
	rollout("LiveUpdate")
	m := newMachine(t, "edited", "Always", "")
	first := m.untilBooted()

	m.strategy("RerunOnFailure")
	vm := m.untilVM("the instance follows the VM", func(vm *kubevirt.VirtualMachine) bool {
		return vm.Status.DesiredGeneration == vm.Generation && vm.Status.ObservedGeneration == vm.Generation
	})
	require.EqualValues(t, 2, vm.Generation)
	require.Nil(t, vmCondition(vm, "RestartRequired"))

	// A label of the template applies to the next instance; an annotation for the descheduler also to the running pod.
	m.kubectl("patch", "vm", m.name, "--type=merge", "-p",
		`{"spec":{"template":{"metadata":{"labels":{"tier":"front"},"annotations":{"descheduler.alpha.kubernetes.io/evict":"true"}}}}}`)
	until(t, bootTime, "the annotation has reached the pod", func() error {
		out, err := try("-n", m.namespace, "get", "pods", "-o",
			`jsonpath={.items[0].metadata.annotations.descheduler\.alpha\.kubernetes\.io/evict}`)
		if err == nil && out != "true" {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	})
	vm = m.untilVM("the change was observed", func(vm *kubevirt.VirtualMachine) bool {
		return vm.Status.DesiredGeneration == 3
	})
	require.EqualValues(t, 2, vm.Status.ObservedGeneration, "the template was changed")
	require.Nil(t, vmCondition(vm, "RestartRequired"))
	vmi, err := m.vmi()
	require.NoError(t, err)
	require.NotContains(t, vmi.Labels, "tier")

	// The placement applies to the next target of the running instance.
	m.kubectl("patch", "vm", m.name, "--type=merge", "-p",
		`{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/os":"linux"}}}}}`)
	until(t, bootTime, "the node selector has reached the instance", func() error {
		if v := m.mustVMI(); v.Spec.NodeSelector["kubernetes.io/os"] != "linux" {
			return fmt.Errorf("it is %v", v.Spec.NodeSelector)
		}
		return nil
	})
	require.Equal(t, first.UID, m.mustVMI().UID)

	// More memory applies at the next boot, with KubeVirt's message for guests that can migrate and have no maximum.
	m.kubectl("patch", "vm", m.name, "--type=merge", "-p",
		`{"spec":{"template":{"spec":{"domain":{"memory":{"guest":"144Mi"}}}}}}`)
	vm = m.untilVM("a restart is required", func(vm *kubevirt.VirtualMachine) bool {
		return vmCondition(vm, "RestartRequired") != nil
	})
	c := vmCondition(vm, "RestartRequired")
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Equal(t, "memory updated in template spec. Memory-hotplug is not available for this VM configuration", c.Message)
	m.kubectl("patch", "vm", m.name, "--type=merge", "-p",
		`{"spec":{"template":{"spec":{"domain":{"memory":{"guest":"128Mi"}}}}}}`)
	m.untilVM("no restart is required any more", func(vm *kubevirt.VirtualMachine) bool {
		return vmCondition(vm, "RestartRequired") == nil
	})

	m.kubectl("patch", "vm", m.name, "--type=merge", "-p",
		`{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":50,"domain":{"memory":{"guest":"144Mi"}}}}}}`)
	vm = m.untilVM("a restart is required", func(vm *kubevirt.VirtualMachine) bool {
		return vmCondition(vm, "RestartRequired") != nil
	})
	require.Equal(t, "a non-live-updatable field was changed in the template spec: terminationGracePeriodSeconds",
		vmCondition(vm, "RestartRequired").Message)

	m.request(stopOf(first) + "," + startIt)
	second := m.untilReplaced(first)
	require.Equal(t, "144Mi", second.Spec.Domain.Memory.Guest.String())
	require.Equal(t, "front", second.Labels["tier"])
	m.untilVM("the new instance matches the VM", func(vm *kubevirt.VirtualMachine) bool {
		return vmCondition(vm, "RestartRequired") == nil && vm.Status.ObservedGeneration == vm.Generation &&
			len(vm.Status.StateChangeRequests) == 0
	})
	require.Equal(t, second.Status.VirtualMachineRevisionName,
		strings.TrimSpace(m.kubectl("get", "controllerrevisions", "-o", "jsonpath={.items[*].metadata.name}")),
		"one revision is kept")
	m.remove()
}

// TestLegacyRunning: the field running, and a paused start while it is false.
func TestLegacyRunning(t *testing.T) {
	suite.TakeTurn(t, 2)
	m := &machine{t: t, namespace: newNamespace(t), name: "legacy"}
	apply(t, strings.Replace(m.manifest("Halted", ""), "runStrategy: Halted", "running: false", 1))
	m.untilStatus("Stopped")
	m.request(startIt)
	vm := m.untilVM("running has become true", func(vm *kubevirt.VirtualMachine) bool {
		return vm.Spec.Running != nil && *vm.Spec.Running
	})
	require.Nil(t, vm.Spec.RunStrategy)
	m.untilBooted()
	m.kubectl("patch", "vm", m.name, "--type=merge", "-p", `{"spec":{"running":false}}`)
	vm = m.untilStatus("Stopped")
	require.Equal(t, kubevirt.RunStrategyHalted, vm.Status.RunStrategy)
	m.remove()
}

// TestDeleteOrphan: the VM is deleted, its guest stays, and another VM of that name adopts it. A foreground deletion
// deletes both.
func TestDeleteOrphan(t *testing.T) {
	suite.TakeTurn(t, 1)
	m := newMachine(t, "left", "Always", "")
	first := m.untilBooted()
	m.kubectl("delete", "vm", m.name, "--cascade=orphan", "--timeout=60s")
	until(t, time.Minute, "the instance has no owner any more", func() error {
		v, err := m.vmi()
		if err == nil && len(v.OwnerReferences) > 0 {
			err = fmt.Errorf("it has %v", v.OwnerReferences)
		}
		return err
	})
	vmi := m.mustVMI()
	require.Equal(t, first.UID, vmi.UID)
	require.Equal(t, kubevirt.Running, vmi.Status.Phase)
	require.Nil(t, vmi.DeletionTimestamp)
	require.Len(t, m.domains(), 1)

	// A VM of that name adopts it.
	m.apply("Always", "")
	m.untilStatus("Running")
	require.Equal(t, first.UID, m.mustVMI().UID)
	require.Len(t, m.mustVMI().OwnerReferences, 1)
	m.kubectl("delete", "vm", m.name, "--cascade=foreground", "--timeout=110s")
	until(t, time.Minute, "nothing is left", func() error {
		out, err := try("-n", m.namespace, "get", "vm,vmi,pods,secrets", "-o", "name")
		if err == nil && strings.TrimSpace(out) != "" {
			err = fmt.Errorf("still there: %s", out)
		}
		return err
	})
}

func (m *machine) mustVMI() *kubevirt.VirtualMachineInstance {
	m.t.Helper()
	vmi, err := m.vmi()
	require.NoError(m.t, err)
	return vmi
}
