//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// lostTime is the limit until a silent node's VMs have the condition NodeLost: Kubernetes' own delay, then virtflow's.
const lostTime = 4 * time.Minute

const schedulable = `{.metadata.labels.kubevirt\.io/schedulable}`

// untilLabel waits until a node is labelled as schedulable for VMs, or not.
func untilLabel(t *testing.T, node, want string) {
	t.Helper()
	until(t, 2*time.Minute, "node "+node+" is labelled "+want, func() error {
		if out, err := try("get", "node", node, "-o", "jsonpath="+schedulable); err != nil || out != want {
			return fmt.Errorf("it is %q: %w", out, err)
		}
		return nil
	})
}

// labels collects the values of a node's label since the call.
func labels(t *testing.T, node string) func() []string {
	t.Helper()
	var mu sync.Mutex
	var buf bytes.Buffer
	cmd := exec.Command("kubectl", "get", "node", node, "--watch", "-o", "jsonpath="+schedulable+`{"\n"}`)
	cmd.Stdout = writer(func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		buf.Write(p)
	})
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Compact(strings.Fields(buf.String()))
	}
}

func uncordon(t *testing.T, node string) {
	t.Helper()
	t.Cleanup(func() { _, _ = try("uncordon", node) })
}

// bystander creates the pod "bystander" of an app on a node. Its image does not exist.
func bystander(t *testing.T, namespace, node, app string) {
	t.Helper()
	apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: bystander, namespace: %s, labels: {app: %s}}, `+
		`spec: {nodeName: %s, terminationGracePeriodSeconds: 0, securityContext: {runAsNonRoot: true, runAsUser: 107, `+
		`seccompProfile: {type: RuntimeDefault}}, containers: [{name: c, image: none, imagePullPolicy: Never, `+
		`securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}`, namespace, app, node))
}

// kubelet returns the process of a node's kubelet.
func kubelet(t *testing.T, node string) proc {
	t.Helper()
	found := processes(func(p proc) bool {
		return strings.Contains(p.args, " kubelet ") && strings.Contains(p.args, "--hostname-override "+node+" ")
	})
	require.Len(t, found, 1, "the kubelet of %s", node)
	return found[0]
}

// freezeKubelet stops a node's kubelet: it neither reports nor ends anything. The returned function restarts it.
func freezeKubelet(t *testing.T, node string) (restart func()) {
	t.Helper()
	require.NoError(t, syscall.Kill(kubelet(t, node).pid, syscall.SIGSTOP))
	done := false
	restart = func() {
		if !done {
			done = true
			dev(t, "kill", node+"-kubelet")
		}
	}
	t.Cleanup(func() {
		restart()
		untilLabel(t, node, "true")
	})
	return restart
}

// nodeLost returns the VM's condition NodeLost, or nil.
func (m *machine) nodeLost() (*kubevirt.VirtualMachineCondition, error) {
	vm, err := m.vm()
	if err != nil {
		return nil, err
	}
	for i := range vm.Status.Conditions {
		if vm.Status.Conditions[i].Type == "NodeLost" {
			return &vm.Status.Conditions[i], nil
		}
	}
	return nil, nil
}

func (m *machine) untilLost() {
	m.t.Helper()
	until(m.t, lostTime, "VM "+m.name+" has the condition NodeLost", func() error {
		c, err := m.nodeLost()
		if err == nil && c == nil {
			err = fmt.Errorf("it does not")
		}
		if err == nil && (c.Status != corev1.ConditionTrue || c.Reason != "NodeUnresponsive") {
			err = fmt.Errorf("condition %v", c)
		}
		return err
	})
}

// untilAnother waits for an instance other than that one, and until its guest has booted.
func (m *machine) untilAnother(than *kubevirt.VirtualMachineInstance) *kubevirt.VirtualMachineInstance {
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

// bootOn boots a VM on that node, with a disk on each of these PVCs, which it creates. The other nodes are cordoned
// meanwhile.
func bootOn(t *testing.T, node, name string, claims ...string) (*machine, *kubevirt.VirtualMachineInstance) {
	t.Helper()
	others := strings.Fields(strings.ReplaceAll(kubectl(t, "get", "nodes", "-o", "name"), "node/", ""))
	others = slices.DeleteFunc(others, func(n string) bool { return n == node })
	for _, n := range others {
		uncordon(t, n)
		kubectl(t, "cordon", n)
	}
	m := newMachine(t, name, "Halted", "")
	for _, c := range claims {
		apply(t, fmt.Sprintf(sharedClaim, c, m.namespace, "Filesystem", ""))
	}
	apply(t, m.withClaims(claims...))
	vmi := m.untilBooted()
	require.Equal(t, node, vmi.Status.NodeName)
	for _, n := range others {
		kubectl(t, "uncordon", n)
		untilLabel(t, n, "true")
	}
	return m, vmi
}

// idleNode returns the node that runs fewer of virtflow's own Deployments.
func idleNode(t *testing.T) string {
	t.Helper()
	busy := kubectl(t, "-n", "virtflow", "get", "pods", "-l",
		"app.kubernetes.io/name in "+
			"(virtflow-control-worker,virtflow-crdwatch,virtflow-api-server,virtflow-node-gateway)",
		"-o", "jsonpath={.items[*].spec.nodeName}")
	best, least := "", 1<<30
	for _, n := range strings.Fields(strings.ReplaceAll(kubectl(t, "get", "nodes", "-o", "name"), "node/", "")) {
		if c := strings.Count(busy+" ", n+" "); c < least {
			best, least = n, c
		}
	}
	return best
}

// TestCordonAndDrain: the label follows the cordon, a running guest is not affected, and a drain moves the VM.
func TestCordonAndDrain(t *testing.T) {
	suite.TakeTurn(t, 4)
	untilHealthy(t)
	m := newMachine(t, "drained", "Always", "")
	first := m.untilBooted()
	node := first.Status.NodeName
	qemu := m.domains()
	require.Len(t, qemu, 1)
	most := watchDomains(m)
	uncordon(t, node)
	kubectl(t, "cordon", node)
	untilLabel(t, node, "false")
	require.Equal(t, qemu[0].pid, m.domains()[0].pid)
	kubectl(t, "uncordon", node)
	untilLabel(t, node, "true")

	log := m.follow()
	kubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector",
		"vm.kubevirt.io/name="+m.name, "--timeout=100s")
	<-log.done
	require.Contains(t, log.String(), "guest: clean shutdown")
	second := m.untilAnother(first)
	require.NotEqual(t, node, second.Status.NodeName)
	require.Equal(t, 1, most())
	kubectl(t, "uncordon", node)
	untilLabel(t, node, "true")
	m.remove()
}

// TestNodeWorkerGone: its node takes no VMs until it is back, and the VMs there run on.
func TestNodeWorkerGone(t *testing.T) {
	suite.TakeTurn(t, 7)
	untilHealthy(t)
	m := newMachine(t, "carefree", "Always", "")
	vmi := m.untilBooted()
	qemu := m.domains()
	require.Len(t, qemu, 1)
	seen := labels(t, vmi.Status.NodeName)
	until(t, time.Minute, "the watch has begun", func() error {
		if len(seen()) == 0 {
			return fmt.Errorf("the watch has printed nothing yet")
		}
		return nil
	})
	kubectl(t, "-n", "virtflow", "delete", "pod", "-l", "app.kubernetes.io/name=virtflow-node-worker",
		"--field-selector", "spec.nodeName="+vmi.Status.NodeName)
	until(t, 2*time.Minute, "the label was false, and is true again", func() error {
		if got := seen(); !slices.Equal(got, []string{"true", "false", "true"}) {
			return fmt.Errorf("it was %v", got)
		}
		return nil
	})
	require.Equal(t, qemu[0].pid, m.domains()[0].pid)
	now, err := m.vmi()
	require.NoError(t, err)
	require.Equal(t, vmi.UID, now.UID)
	events := kubectl(t, "-n", "default", "get", "events", "--field-selector",
		"involvedObject.kind=Node,reason=NodeUnresponsive,involvedObject.name="+vmi.Status.NodeName, "-o", "name")
	require.NotEmpty(t, events, "there is an event when a node takes no VMs any more")
	// The new worker follows the guest: it reports its end.
	log := m.follow()
	m.remove()
	<-log.done
	require.Contains(t, log.String(), "guest: clean shutdown")
}

// TestKubeletStoppedAndBack: the VM has the condition NodeLost, no second guest is started, and the restarted kubelet
// finds the same guest.
func TestKubeletStoppedAndBack(t *testing.T) {
	suite.TakeTurn(t, 6)
	untilHealthy(t)
	m := newMachine(t, "patient", "Always", "")
	first := m.untilBooted()
	qemu := m.domains()
	require.Len(t, qemu, 1)
	most := watchDomains(m)
	restart := freezeKubelet(t, first.Status.NodeName)
	untilLabel(t, first.Status.NodeName, "false")
	m.untilLost()
	require.Contains(t, m.kubectl("get", "events", "-o", "jsonpath={range .items[*]}{.type}/{.reason} {end}"),
		"Warning/NodeUnresponsive")
	restart()
	until(t, 2*time.Minute, "the condition is gone", func() error {
		c, err := m.nodeLost()
		if err == nil && c != nil {
			err = fmt.Errorf("it is there: %s", c.Message)
		}
		return err
	})
	untilLabel(t, first.Status.NodeName, "true")
	until(t, 2*time.Minute, "the VM is ready again", func() error {
		vm, err := m.vm()
		if err == nil && !vm.Status.Ready {
			err = fmt.Errorf("conditions: %v", vm.Status.Conditions)
		}
		return err
	})
	now, err := m.vmi()
	require.NoError(t, err)
	require.Equal(t, first.UID, now.UID)
	require.Equal(t, kubevirt.Running, now.Status.Phase)
	require.Equal(t, 1, most())
	require.Equal(t, qemu[0].pid, m.domains()[0].pid, "the guest runs on, and is not started again")
	require.Equal(t, 1, strings.Count(m.console(), marker), "boots")
	log := m.follow()
	m.remove()
	<-log.done
	require.Contains(t, log.String(), "guest: clean shutdown")
}

// TestNodeOutOfService: force-deleting the pod of a silent node starts nothing. Once the guest is really off, and a
// person states so for that VM, or declares the node out of service, the VM is started on another node, with the data
// on its PVC.
func TestNodeOutOfService(t *testing.T) {
	suite.TakeTurn(t, 3)
	untilHealthy(t)
	node := idleNode(t)
	m, first := bootOn(t, node, "fenced", "kept")
	m.untilAgentAnswers()
	m.runByAgent(bySerial + "echo on the lost node | dd of=/dev/$(d kept) conv=fsync")
	confirmed, instance := bootOn(t, node, "confirmed")
	_, err := control(contract.VMIID(confirmed.namespace, confirmed.name), "fence-confirmed", `{"actor": "alice"}`)
	require.Error(t, err, "a statement that a healthy node is off is refused")
	most := watchDomains(m)
	old := m.domains()
	require.Len(t, old, 1)
	pod := m.pod()
	restart := freezeKubelet(t, node)
	m.kubectl("delete", "pod", pod, "--force", "--grace-period=0", "--wait=false")
	m.untilLost()
	now, err := m.vmi()
	require.NoError(t, err)
	require.Equal(t, first.UID, now.UID)
	require.Equal(t, pod, m.pod(), "the pod's object must survive a forced deletion")
	require.Equal(t, old[0].pid, m.domains()[0].pid)

	confirmed.untilLost()
	// As a power failure would. The node worker is killed first: otherwise it would report the guest's crash, as it
	// should, and the VM would start elsewhere before a person has stated that the node is off.
	kill(t, workersOn(t, node))
	kill(t, confirmed.domains())
	out, err := control(contract.VMIID(confirmed.namespace, confirmed.name), "fence-confirmed",
		`{"actor": "alice", "reason": "pulled the plug"}`)
	require.NoError(t, err, out)
	require.NotEqual(t, node, confirmed.untilAnother(instance).Status.NodeName)
	now, err = m.vmi()
	require.NoError(t, err)
	require.Equal(t, first.UID, now.UID, "the statement is about the other VM only")

	require.Equal(t, old[0].pid, m.domains()[0].pid)

	kill(t, old)
	t.Cleanup(func() { _, _ = try("taint", "node", node, "node.kubernetes.io/out-of-service-") })
	kubectl(t, "taint", "node", node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	second := m.untilAnother(first)
	require.NotEqual(t, node, second.Status.NodeName)
	require.Equal(t, 1, most(), "domains at the same time")
	m.untilAgentAnswers()
	require.Equal(t, "on the lost node", strings.TrimSpace(m.runByAgent(bySerial+"head -n 1 /dev/$(d kept)")))
	require.Contains(t, m.kubectl("get", "events", "-o", "jsonpath={range .items[*]}{.type}/{.reason} {end}"),
		"Normal/NodeUnresponsive")

	kubectl(t, "taint", "node", node, "node.kubernetes.io/out-of-service-")
	restart()
	untilLabel(t, node, "true")
	require.Len(t, m.domains(), 1)
	require.Len(t, confirmed.domains(), 1)
	m.remove()
	confirmed.remove()
	untilHealthy(t)
}

// TestForcedDeletions: a pod, a VMI and a VM on a healthy node are force-deleted, and each ends properly.
func TestForcedDeletions(t *testing.T) {
	suite.TakeTurn(t, 3)
	untilHealthy(t)
	m := newMachine(t, "forced", "Always", "")
	first := m.untilBooted()
	uid := m.kubectl("get", "pods", "-o", "jsonpath={.items[0].metadata.uid}")
	most := watchDomains(m)
	m.kubectl("delete", "pod", m.pod(), "--force", "--grace-period=0", "--wait=false")
	second := m.untilAnother(first)
	m.kubectl("delete", "vmi", m.name, "--force", "--grace-period=0", "--wait=false")
	m.untilAnother(second)
	m.kubectl("delete", "vm", m.name, "--force", "--grace-period=0", "--timeout=110s")
	until(t, 2*time.Minute, "VM, VMI and pod are gone", func() error {
		if out, err := try("-n", m.namespace, "get", "vm,vmi,pods", "-o", "name"); err != nil ||
			strings.TrimSpace(out) != "" {
			return fmt.Errorf("there is %q: %w", out, err)
		}
		return nil
	})
	require.Equal(t, 1, most(), "domains at the same time")
	until(t, time.Minute, "nothing is left", func() error { return leftovers(t, m, uid) })
}

// TestNamespaceDeletion deletes a namespace with running VMs in it.
func TestNamespaceDeletion(t *testing.T) {
	suite.TakeTurn(t, 4)
	untilHealthy(t)
	m := newMachine(t, "one", "Always", "")
	other := &machine{t: t, namespace: m.namespace, name: "two", taps: m.taps}
	other.apply("Always", "")
	m.untilBooted()
	other.untilBooted()
	kubectl(t, "delete", "namespace", m.namespace, "--timeout=110s")
	require.Empty(t, m.domains())
	require.Empty(t, other.domains())
}
