//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestGuestFiles: what Kubernetes keeps for a VM is on the guest's disks, its agent sets an SSH key, and no secret is
// readable by others. The pod waits for the Secret and the ConfigMap, which are created after the VM. The guest boots
// with UEFI without secure boot, on hardware that the VM specifies in detail.
func TestGuestFiles(t *testing.T) {
	suite.TakeTurn(t, 4)
	m := &machine{t: t, namespace: newNamespace(t), name: "files"}
	m.apply("Halted", "")
	const disks, volumes = "/spec/template/spec/domain/devices/disks/-", "/spec/template/spec/volumes/-"
	patch := []string{
		`{"op":"replace","path":"/spec/runStrategy","value":"Always"}`,
		`{"op":"add","path":"/spec/template/spec/domain/firmware","value":{"bootloader":{"efi":{"secureBoot":false}}}}`,
		`{"op":"replace","path":"/spec/template/spec/domain/memory/guest","value":"512Mi"}`,
		`{"op":"replace","path":"/spec/template/spec/domain/cpu","value":{"model":"Nehalem","cores":2,"threads":2}}`,
		`{"op":"add","path":"/spec/template/spec/domain/chassis","value":{"manufacturer":"Maker","serial":"c-1"}}`,
		`{"op":"add","path":"/spec/template/spec/domain/clock","value":{"timezone":"Asia/Tokyo","timer":{}}}`,
		`{"op":"add","path":"/spec/template/spec/domain/devices/rng","value":{}}`,
		`{"op":"replace","path":"/spec/template/spec/volumes/2","value":{"name":"cloudinit","cloudInitConfigDrive":` +
			`{"secretRef":{"name":"script"},"networkData":"{\"links\":[]}"}}}`,
		`{"op":"add","path":"/spec/template/spec/accessCredentials","value":[` +
			`{"sshPublicKey":{"source":{"secret":{"secretName":"keys"}},` +
			`"propagationMethod":{"qemuGuestAgent":{"users":["root"]}}}},` +
			`{"userPassword":{"source":{"secret":{"secretName":"passwords"}},` +
			`"propagationMethod":{"qemuGuestAgent":{}}}},` +
			`{"sshPublicKey":{"source":{"secret":{"secretName":"more"}},"propagationMethod":{"configDrive":{}}}}]}`,
	}
	for _, v := range []struct{ name, disk, source string }{
		{"secret", `"disk":{"bus":"virtio"}`, `"secret":{"secretName":"late","volumeLabel":"MINE"}`},
		{"settings", `"cdrom":{"bus":"sata"}`, `"configMap":{"name":"late"}`},
		{"absent", `"disk":{"bus":"scsi"}`, `"configMap":{"name":"never","optional":true}`},
		{"answers", `"cdrom":{"bus":"sata"}`, `"sysprep":{"configMap":{"name":"answers"}}`},
		{"account", `"disk":{"bus":"scsi"}`, `"serviceAccount":{"serviceAccountName":"default"}`},
		{"info", `"disk":{}`, `"downwardAPI":{"fields":[{"path":"labels","fieldRef":{"fieldPath":"metadata.labels"}}]}`},
	} {
		patch = append(patch, fmt.Sprintf(`{"op":"add","path":%q,"value":{"name":%q,%s}}`, disks, v.name, v.disk),
			fmt.Sprintf(`{"op":"add","path":%q,"value":{"name":%q,%s}}`, volumes, v.name, v.source))
	}
	m.kubectl("patch", "vm", m.name, "--type=json", "-p", "["+strings.Join(patch, ",")+"]")
	until(t, bootTime, "the kubelet reports the absent Secret", func() error {
		out, err := try("-n", m.namespace, "get", "events", "-o",
			"jsonpath={range .items[*]}{.reason} {.message}{'\\n'}{end}")
		if err == nil && !strings.Contains(out, `"late" not found`) {
			err = fmt.Errorf("events: %s", out)
		}
		return err
	})
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: late, namespace: %[1]s}
stringData: {Pass.Word: opensesame-of-a-secret}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: late, namespace: %[1]s}
data: {setting: of-a-config-map}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: answers, namespace: %[1]s}
data: {autounattend.xml: <unattend/>}
---
apiVersion: v1
kind: Secret
metadata: {name: keys, namespace: %[1]s}
stringData: {mine: ssh-ed25519 AAAA by-the-agent}
---
apiVersion: v1
kind: Secret
metadata: {name: passwords, namespace: %[1]s}
stringData: {nobody: correct-horse-opensesame}
---
apiVersion: v1
kind: Secret
metadata: {name: more, namespace: %[1]s}
stringData: {mine: ssh-ed25519 BBBB by-cloud-init}
---
apiVersion: v1
kind: Secret
metadata: {name: script, namespace: %[1]s}
stringData: {userData: "unused by this guest"}
`, m.namespace))
	m.untilBooted()
	m.untilAgentAnswers()
	// The test guest knows NoCloud only: a command of the agent reads its disks.
	out := m.runByAgent(`mkdir -p /m; ` +
		`for d in /dev/vd[c-z] /dev/sd? /dev/sr?; do mount -t iso9660 -o ro $d /m || continue; ` +
		`cd /m; for f in $(find . -type f); do echo "$f: $(head -c 300 $f)"; done; cd /; umount /m; done; true`)
	m.checkHardware()
	for _, want := range []string{
		"./Pass.Word: opensesame-of-a-secret", "./setting: of-a-config-map", "./token: ey", "./namespace: " + m.namespace,
		"./ca.crt: -----BEGIN CERTIFICATE-----", "./autounattend.xml: <unattend/>", `kubevirt.io="virt-launcher"`,
		`"public_keys":{"0":"ssh-ed25519 BBBB by-cloud-init"}`, `./openstack/latest/network_data.json: {"links":[]}`,
	} {
		require.Contains(t, out, want)
	}
	until(t, time.Minute, "the agent has set the key and the password", func() error {
		vmi, err := m.vmi()
		if err != nil {
			return err
		}
		for _, c := range vmi.Status.Conditions {
			if c.Type == "AccessCredentialsSynchronized" && c.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("conditions: %v", vmi.Status.Conditions)
	})
	require.Contains(t, m.runByAgent("cat /root/.ssh/authorized_keys"), "ssh-ed25519 AAAA by-the-agent")
	require.NotContains(t, m.runByAgent("grep ^nobody: /etc/shadow"), "nobody:*", "no password")
	require.NotContains(t, m.kubectl("get", "pod,vmi,vm,events", "-o", "yaml"), "opensesame")
	m.remove()
}

// checkHardware checks that the guest sees its firmware, processors, chassis, clock and source of random numbers.
func (m *machine) checkHardware() {
	t := m.t
	t.Helper()
	require.Contains(t, m.runByAgent("ls /sys/firmware/efi"), "efivars")
	require.Contains(t, m.runByAgent("grep -m 1 'model name' /proc/cpuinfo"), "Nehalem")
	require.Equal(t, "4\n0-1\nMaker\nc-1\n", m.runByAgent("nproc; cat /sys/devices/system/cpu/cpu0/topology/"+
		"thread_siblings_list /sys/class/dmi/id/chassis_vendor /sys/class/dmi/id/chassis_serial"))
	require.Contains(t, m.runByAgent("cat /sys/class/misc/hw_random/rng_current"), "virtio_rng")
	now, err := strconv.ParseInt(strings.TrimSpace(m.runByAgent("date +%s")), 10, 64)
	require.NoError(t, err)
	require.Equal(t, 9*time.Hour, time.Until(time.Unix(now, 0)).Round(time.Hour),
		"the guest reads its clock as UTC, and the clock is set to Tokyo's time")
}

func (m *machine) untilAgentAnswers() {
	m.t.Helper()
	until(m.t, time.Minute, "the guest's agent answers", func() error {
		_, err := m.tryByAgent("true")
		return err
	})
}

// runByAgent runs a command by the guest's agent, as a probe does, and returns its output: 10 KiB at most.
func (m *machine) runByAgent(command string) string {
	m.t.Helper()
	out, err := m.tryByAgent(command)
	require.NoError(m.t, err)
	return out
}

func (m *machine) tryByAgent(command string) (string, error) {
	return try("-n", m.namespace, "exec", m.pod(), "-c", "compute", "--", "/usr/bin/launcher", "probe",
		"--timeout-seconds", "20", "--command", "/bin/sh", "--", "-c", command)
}
