//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// distributionTime is the limit for the boot of a whole distribution, emulated, until its SSH server answers.
const distributionTime = 8 * time.Minute

// TestDistribution boots a cloud image of Debian from a PVC, as users do: with BIOS, and later the same disk with UEFI
// secure boot. The guest applies its user data, network data and SSH keys, some of them from a Secret; virtctl ssh logs
// in; and written data survives a restart.
func TestDistribution(t *testing.T) {
	suite.TakeTurn(t, 1)
	out, err := exec.Command("go", "run", "-trimpath", "-buildvcs=false", "../../deploy/images", "cloud-image").Output()
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "key")
	said, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput()
	require.NoError(t, err, "%s", said)
	public, err := os.ReadFile(key + ".pub")
	require.NoError(t, err)

	d := distribution{machine: &machine{t: t, namespace: newNamespace(t), name: "debian"}, key: key}
	claimWith(t, d.namespace, "system", "3Gi", strings.TrimSpace(string(out)))
	d.kubectl("create", "secret", "generic", "keys", "--from-literal=of=ssh-ed25519 AAAA of-a-secret")
	apply(t, fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: debian, namespace: %s}
spec:
  runStrategy: Always
  template:
    spec:
      accessCredentials:
      - sshPublicKey:
          source: {secret: {secretName: keys}}
          propagationMethod: {noCloud: {}}
      terminationGracePeriodSeconds: 120
      domain:
        cpu: {cores: 2}
        memory: {guest: 512Mi}
        devices:
          disks:
          - {name: system, disk: {bus: virtio}}
          - {name: cloudinit, disk: {bus: virtio}}
          interfaces:
          - {name: default, masquerade: {}}
      networks:
      - {name: default, pod: {}}
      volumes:
      - name: system
        persistentVolumeClaim: {claimName: system}
      - name: cloudinit
        cloudInitNoCloud:
          userData: |
            #cloud-config
            hostname: from-user-data
            users:
            - default
            - name: guest
              shell: /bin/bash
              sudo: ALL=(ALL) NOPASSWD:ALL
              ssh_authorized_keys: [%q]
          networkData: |
            version: 2
            ethernets:
              enp1s0:
                dhcp4: true
                addresses: [192.0.2.77/32]
`, d.namespace, strings.TrimSpace(string(public))))
	first := d.untilUp("")
	require.Equal(t, "ssh-ed25519 AAAA of-a-secret", d.run("sudo tail -n 1 ~debian/.ssh/authorized_keys"))
	require.Equal(t, "from-user-data", d.run("hostname"))
	require.Contains(t, d.run("ip -4 -o addr"), "192.0.2.77/32", "of the network data")
	require.Equal(t, "running", d.run("systemctl is-system-running --wait"))
	require.Equal(t, "absent", d.run("test -d /sys/firmware/efi && echo there || echo absent"))
	size, err := strconv.Atoi(d.run("df --output=size -B1M / | tail -n 1"))
	require.NoError(t, err)
	require.Greater(t, size, 2500, "MiB of the root file system, which has grown to the claim's size")
	until(t, 3*time.Minute, "the guest agent reports its operating system", d.agentReports)
	d.run("echo kept | sudo tee /var/lib/kept && sync")

	(&virtctl{t, d.namespace}).mustRun("restart", d.name)
	second := d.untilUp(first)
	require.Equal(t, "kept", d.run("cat /var/lib/kept"))
	require.Equal(t, "1", d.run("ls /var/lib/cloud/instances | wc -l"), "it is the same instance to cloud-init")

	d.strategy("Halted")
	d.untilStatus("Stopped")
	d.kubectl("patch", "vm", d.name, "--type=merge", "-p", `{"spec":{"template":{"spec":{"domain":{
		"features":{"smm":{"enabled":true}},"firmware":{"bootloader":{"efi":{"secureBoot":true}}}}}}}}`)
	d.strategy("Always")
	d.untilUp(second)
	require.Contains(t, d.run("mokutil --sb-state"), "SecureBoot enabled")
	require.Equal(t, "kept", d.run("cat /var/lib/kept"))
	d.remove()
}

// distribution is a VM with a user who can log in with a key.
type distribution struct {
	*machine
	key string
}

// untilUp waits until its SSH server answers in another boot than that one, and returns that boot's ID.
func (d distribution) untilUp(than string) (boot string) {
	d.t.Helper()
	until(d.t, distributionTime, "the distribution is up", func() error {
		out, err := d.try("cat /proc/sys/kernel/random/boot_id")
		if boot = strings.TrimSpace(out); err == nil && boot == than {
			err = fmt.Errorf("it is still the boot %s", than)
		}
		if err != nil {
			err = fmt.Errorf("%w; its console ends with: %s", err, tail(d.console(), 5))
			time.Sleep(2 * time.Second) // each attempt starts a process and a connection
		}
		return err
	})
	return boot
}

func (d distribution) run(command string) string {
	d.t.Helper()
	out, err := d.try(command)
	require.NoError(d.t, err)
	return strings.TrimSpace(out)
}

// try runs a command by virtctl ssh.
func (d distribution) try(command string) (string, error) {
	v := &virtctl{d.t, d.namespace}
	c := v.command("ssh", "guest@vm/"+d.name, "-i", d.key, "-c", command, "-t", "-oStrictHostKeyChecking=no",
		"-t", "-oUserKnownHostsFile=/dev/null", "-t", "-oConnectTimeout=20", "-t", "-oLogLevel=ERROR",
		"-t", "-oServerAliveInterval=5", "-t", "-oServerAliveCountMax=3")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("virtctl ssh %q: %w: %s", command, err, stderr.String())
	}
	return string(out), err
}

// agentReports checks that the instance's status has the name of the operating system.
func (d distribution) agentReports() error {
	vmi, err := d.vmi()
	if err == nil && vmi.Status.GuestOSInfo.PrettyName == "" {
		err = fmt.Errorf("%+v", vmi.Status.GuestOSInfo)
	}
	return err
}
