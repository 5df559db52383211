//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestLifecycle: create, boot, stop, start again, restart, delete, and nothing is left.
func TestLifecycle(t *testing.T) {
	m := newMachine(t, "web", "Always", "")
	vmi := m.untilBooted()

	require.Equal(t, kubevirt.Running, vmi.Status.Phase)
	require.NotEmpty(t, vmi.Status.NodeName)
	require.Equal(t, vmi.Status.NodeName, vmi.Labels["kubevirt.io/nodeName"])
	require.Len(t, vmi.Status.Interfaces, 1)
	require.NotEmpty(t, vmi.Status.Interfaces[0].IP)
	require.NotContains(t, vmi.Annotations, "virtflow.io/vmi")
	vm, err := m.vm()
	require.NoError(t, err)
	require.True(t, vm.Status.Created)
	require.Len(t, vmi.OwnerReferences, 1)
	require.Equal(t, vm.UID, vmi.OwnerReferences[0].UID)
	until(t, time.Minute, "the VM is ready", func() error {
		if vm, err = m.vm(); err == nil && !vm.Status.Ready {
			err = fmt.Errorf("conditions: %v", vm.Status.Conditions)
		}
		return err
	})
	list := m.kubectl("get", "vm,vmi,pods", "-o", "wide")
	require.Contains(t, list, "Running")
	require.Contains(t, list, vmi.Status.Interfaces[0].IP)
	t.Log("\n" + list)
	events := m.kubectl("get", "events", "-o", "jsonpath={range .items[*]}{.involvedObject.kind}/{.reason} {end}")
	for _, e := range []string{"VirtualMachine/SuccessfulCreate", "VirtualMachineInstance/SuccessfulCreate",
		"VirtualMachineInstance/Created", "VirtualMachineInstance/Started"} {
		require.Contains(t, events, e)
	}
	secret := "secret-of-web"
	require.NotContains(t, m.kubectl("get", "pods", "-o", "yaml"), secret,
		"secrets must not be in a pod's annotations")

	// Applied again by GitOps controllers, the VM stays as it is, and its guest runs on.
	applyByTwo(t, m.manifest("Always", ""), m.namespace, "vm/"+m.name)
	same, err := m.vmi()
	require.NoError(t, err)
	require.Equal(t, vmi.UID, same.UID)

	// Stop: the guest is asked to shut down, and logs that it did so cleanly.
	first := m.kubectl("get", "pods", "-o", "jsonpath={.items[0].metadata.uid}")
	log := m.follow()
	m.strategy("Halted")
	m.untilStatus("Stopped")
	m.kubectl("wait", "vm", m.name, "--for=condition=Ready=False", "--timeout=30s") // kubectl trusts the condition
	<-log.done
	require.Contains(t, log.String(), "guest: power button pressed")
	require.Contains(t, log.String(), "guest: clean shutdown")
	_, err = m.vmi()
	require.ErrorContains(t, err, "NotFound")
	until(t, time.Minute, "nothing of the first instance is left", func() error { return leftovers(t, m, first) })

	// Start again, another instance.
	m.strategy("Always")
	second := m.untilBooted()
	require.NotEqual(t, vmi.UID, second.UID)

	// Restart, as KubeVirt's API writes it.
	m.kubectl("patch", "vm", m.name, "--subresource=status", "--type=merge", "-p",
		fmt.Sprintf(`{"status":{"stateChangeRequests":[{"action":"Stop","uid":%q},{"action":"Start"}]}}`, second.UID))
	until(t, bootTime, "another instance runs", func() error {
		v, err := m.vmi()
		if err != nil {
			return err
		}
		if v.UID == second.UID || v.Status.Phase != kubevirt.Running {
			return fmt.Errorf("instance %s is %s", v.UID, v.Status.Phase)
		}
		return nil
	})
	m.untilBooted()

	// Delete, and look for leftovers.
	last := m.kubectl("get", "pods", "-o", "jsonpath={.items[0].metadata.uid}")
	log = m.follow()
	m.remove()
	<-log.done
	require.Contains(t, log.String(), "guest: clean shutdown")
	until(t, time.Minute, "nothing is left in Kubernetes", func() error {
		out, err := try("-n", m.namespace, "get", "vm,vmi,pods,controllerrevisions,secrets", "-o", "name")
		if err == nil && strings.TrimSpace(out) != "" {
			err = fmt.Errorf("still there: %s", out)
		}
		return err
	})
	until(t, time.Minute, "nothing is left on the nodes", func() error { return leftovers(t, m, last) })
}

// TestGracePeriodZeroKillsAtOnce: a guest without grace period is not asked to shut down.
func TestGracePeriodZeroKillsAtOnce(t *testing.T) {
	suite.TakeTurn(t, 7)
	m := &machine{t: t, namespace: newNamespace(t), name: "hasty"}
	m.apply("Always", "")
	m.untilBooted()
	m.strategy("Halted")
	m.untilStatus("Stopped")
	m.kubectl("patch", "vm", m.name, "--type=merge", "-p",
		`{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":0}}}}`)
	m.strategy("Always")
	m.untilBooted()
	log := m.follow()
	m.remove()
	<-log.done
	require.NotContains(t, log.String(), "guest: clean shutdown")
}

// TestOnce: a guest that has ended is not started again.
func TestOnce(t *testing.T) {
	suite.TakeTurn(t, 6)
	m := newMachine(t, "once", "Once", "")
	m.untilBooted()
	m.inGuest("poweroff")
	vm := m.untilStatus("Stopped")
	require.True(t, vm.Status.Created, "the ended instance stays")
	vmi, err := m.vmi()
	require.NoError(t, err)
	require.Equal(t, kubevirt.Succeeded, vmi.Status.Phase)
	m.remove()
}
