//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// ready returns the VMI's Ready condition.
func (m *machine) ready() (bool, *kubevirt.VirtualMachineInstance, error) {
	vmi, err := m.vmi()
	if err != nil {
		return false, nil, err
	}
	return kube.Ready(vmi), vmi, nil
}

func (m *machine) untilReady(want bool) *kubevirt.VirtualMachineInstance {
	m.t.Helper()
	var vmi *kubevirt.VirtualMachineInstance
	until(m.t, bootTime, fmt.Sprintf("the instance's readiness is %t", want), func() error {
		is, v, err := m.ready()
		if err == nil && is != want {
			err = fmt.Errorf("conditions: %v", v.Status.Conditions)
		}
		vmi = v
		return err
	})
	return vmi
}

// TestReadinessByGuestAgentPing: the instance is Ready only once the guest's agent answers. Its status then has the
// guest's operating system.
func TestReadinessByGuestAgentPing(t *testing.T) {
	suite.TakeTurn(t, 1)
	m := newMachine(t, "pinged", "Always",
		"      readinessProbe: {guestAgentPing: {}, periodSeconds: 2, timeoutSeconds: 5}\n")
	vmi := m.untilReady(true)
	require.Contains(t, m.console(), "guest agent on", "Ready before there was an agent")
	until(t, time.Minute, "the status has the guest's operating system", func() (err error) {
		if vmi, err = m.vmi(); err == nil && vmi.Status.GuestOSInfo.ID == "" {
			err = fmt.Errorf("status: %+v", vmi.Status.GuestOSInfo)
		}
		return err
	})
	require.Equal(t, "virtflow-guest", vmi.Status.GuestOSInfo.ID)
	require.Equal(t, "x86_64", vmi.Status.GuestOSInfo.Machine)
	require.NotEmpty(t, vmi.Status.GuestOSInfo.KernelRelease)
	require.Len(t, vmi.Status.Interfaces, 1)
	iface := vmi.Status.Interfaces[0]
	require.Equal(t, "eth0", iface.InterfaceName)
	require.Equal(t, "domain, guest-agent", iface.InfoSource)
	require.NotEmpty(t, iface.MAC)
	require.Equal(t, m.kubectl("get", "pod", m.pod(), "-o", "jsonpath={.status.podIP}"), iface.IP)
	require.Contains(t, iface.IPs, iface.IP)
	m.remove()
}

// TestReadinessByExec: a command in the guest decides. When it begins to fail, the instance is no longer Ready, and
// nothing else happens.
func TestReadinessByExec(t *testing.T) {
	suite.TakeTurn(t, 0)
	m := newMachine(t, "checked", "Always",
		`      readinessProbe: {exec: {command: [sh, -c, "[ -e /run/broken ] && exit 3; echo fine"]}, periodSeconds: `+
			`2, timeoutSeconds: 5, failureThreshold: 1}`+"\n")
	vmi := m.untilReady(true)
	// The probe's own exec breaks it.
	m.kubectl("exec", m.pod(), "-c", "compute", "--", "/usr/bin/launcher", "probe", "--timeout-seconds", "10",
		"--command", "touch", "--", "/run/broken")
	again := m.untilReady(false)
	require.Equal(t, vmi.UID, again.UID)
	require.Equal(t, kubevirt.Running, again.Status.Phase)
	m.kubectl("exec", m.pod(), "-c", "compute", "--", "/usr/bin/launcher", "probe", "--timeout-seconds", "10",
		"--command", "rm", "--", "/run/broken")
	m.untilReady(true)
	m.remove()
}

// TestLivenessProbeFailureEndsGuest: the kubelet ends the container, which shuts the guest down. With run strategy Once
// it is not started again.
func TestLivenessProbeFailureEndsGuest(t *testing.T) {
	suite.TakeTurn(t, 6)
	m := newMachine(t, "mortal", "Once",
		`      livenessProbe: {exec: {command: [test, "!", -e, /run/broken]}, initialDelaySeconds: 30, `+
			`periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 2}`+"\n")
	m.untilBooted()
	log := m.follow()
	m.kubectl("exec", m.pod(), "-c", "compute", "--", "/usr/bin/launcher", "probe", "--timeout-seconds", "10",
		"--command", "touch", "--", "/run/broken")
	until(t, bootTime, "the instance has ended", func() error {
		vmi, err := m.vmi()
		if err == nil && !vmi.IsFinal() {
			err = fmt.Errorf("it is %s", vmi.Status.Phase)
		}
		return err
	})
	<-log.done
	require.Contains(t, log.String(), "guest: power button pressed")
	vmi, err := m.vmi()
	require.NoError(t, err)
	require.Equal(t, kubevirt.Succeeded, vmi.Status.Phase)
	require.Contains(t, m.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}"), "Unhealthy")
	m.remove()
}

// TestNodeLabels: a node's labels are KubeVirt's, and show that guests are emulated.
func TestNodeLabels(t *testing.T) {
	var list corev1.NodeList
	require.NoError(t, json.Unmarshal(
		[]byte(kubectl(t, "get", "nodes", "-l", "kubevirt.io/schedulable=true", "-o", "json")), &list))
	require.NotEmpty(t, list.Items)
	for _, node := range list.Items {
		count := map[string]int{}
		for key := range node.Labels {
			prefix, _, _ := strings.Cut(key, "/")
			count[prefix]++
		}
		t.Logf("%s: %v, virt-type %s", node.Name, count, node.Labels["virtflow.io/virt-type"])
		require.Equal(t, "true", node.Labels["machine-type.node.kubevirt.io/q35"])
		require.Equal(t, "true", node.Labels["cpu-model.node.kubevirt.io/Nehalem"])
		require.NotContains(t, node.Labels, "cpu-model.node.kubevirt.io/qemu64", "obsolete")
		require.Equal(t, "true", node.Labels["cpu-feature.node.kubevirt.io/aes"])
		require.Contains(t, []string{"qemu", "kvm"}, node.Labels["virtflow.io/virt-type"])
		require.Equal(t, 1, count["host-model-cpu.node.kubevirt.io"])
	}

	// Labels that others add there are removed, and labels that they remove are added again.
	name := list.Items[0].Name
	kubectl(t, "label", "node", name, "machine-type.node.kubevirt.io/pc-q35-0.1=true",
		"machine-type.node.kubevirt.io/q35-")
	until(t, time.Minute, "the labels are as they were", func() error {
		out, err := try("get", "node", name, "-o", "json")
		if err != nil {
			return err
		}
		var node corev1.Node
		if err := json.Unmarshal([]byte(out), &node); err != nil {
			return err
		}
		if _, stale := node.Labels["machine-type.node.kubevirt.io/pc-q35-0.1"]; stale ||
			node.Labels["machine-type.node.kubevirt.io/q35"] == "" {
			return fmt.Errorf("labels: %v", node.Labels)
		}
		return nil
	})
}

// TestMachineTypeWithoutNode: the instance is not started only to fail.
func TestMachineTypeWithoutNode(t *testing.T) {
	suite.TakeTurn(t, 7)
	m := &machine{t: t, namespace: newNamespace(t), name: "odd"}
	m.apply("Halted", "")
	m.kubectl("patch", "vm", m.name, "--type=merge", "-p",
		`{"spec":{"runStrategy":"Always","template":{"spec":{"domain":{"machine":{"type":"pc-q35-0.1"}}}}}}`)
	m.untilStatus("ErrorUnschedulable")
	vmi, err := m.vmi()
	require.NoError(t, err)
	found := ""
	for _, c := range vmi.Status.Conditions {
		if c.Type == "PodScheduled" {
			found = c.Reason + ": " + c.Message
		}
	}
	require.Contains(t, found, "Unschedulable: ")
	require.Contains(t, found, "node(s) didn't match Pod's node affinity/selector")
	require.Contains(t, m.kubectl("get", "pod", m.pod(), "-o", "jsonpath={.spec.nodeSelector}"),
		"machine-type.node.kubevirt.io/pc-q35-0.1")
	m.remove()
}

// TestSecretCreatedAfterVM: the pod waits for the Secret, and the guest then has its data.
func TestSecretCreatedAfterVM(t *testing.T) {
	suite.TakeTurn(t, 1)
	m := &machine{t: t, namespace: newNamespace(t), name: "patient"}
	m.apply("Halted", "")
	m.kubectl("patch", "vm", m.name, "--type=json", "-p", `[{"op":"replace","path":"/spec/runStrategy","value":"Always"},
		{"op":"replace","path":"/spec/template/spec/volumes/2/cloudInitNoCloud","value":{"secretRef":{"name":"late"}}}]`)
	m.untilCondition("Synchronized", `secret "late" not found`)
	vmi, err := m.vmi()
	require.NoError(t, err)
	require.False(t, vmi.IsFinal(), "it failed instead of waiting")
	apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: late, namespace: %s}, stringData: `+
		`{userData: "#cloud-config\nruncmd:\n- echo here is the late one >/dev/console\n"}}`, m.namespace))
	m.untilBooted()
	require.Contains(t, m.console(), "here is the late one")
	m.remove()
}
