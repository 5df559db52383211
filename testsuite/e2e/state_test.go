//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/testsuite/turns"
	"github.com/virtflow/virtflow/workflows/contract"
)

// TestAMachineKeepsItsState: what the TPM and UEFI remember outlives a stop, on a claim that goes with the VM.
func TestAMachineKeepsItsState(t *testing.T) {
	turns.Take(t, 3)
	m := &machine{t: t, namespace: newNamespace(t), name: "remembers", taps: taps()}
	dir := launchersDir(t, m.namespace)
	manifest := strings.NewReplacer("guest: 128Mi", "guest: 512Mi", "        devices:\n",
		"        features: {smm: {}}\n        firmware: {bootloader: {efi: {persistent: true}}}\n"+
			"        devices:\n          tpm: {persistent: true}\n").Replace(m.manifest("Halted", ""))
	require.Contains(t, manifest, "tpm:")
	apply(t, manifest)
	vm, err := m.vm()
	require.NoError(t, err)
	claim := claims.StatePrefix + "-" + m.name + "-" + contract.ShortUID(string(vm.UID))
	volume := "virtflow-" + m.namespace
	// Without a wait: it goes with the claim, whose namespace is deleted afterwards.
	t.Cleanup(func() { _, _ = try("delete", "pv", volume, "--ignore-not-found", "--wait=false") })
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  capacity: {storage: 16Mi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  claimRef: {namespace: %[2]s, name: %[3]s}
  hostPath: {path: %[4]s, type: Directory}
`, volume, m.namespace, claim, dir))

	m.strategy("Always")
	vmi := m.untilBooted()
	require.Equal(t, "10Mi "+string(vm.UID), m.kubectl("get", "pvc", claim, "-o",
		"jsonpath={.spec.resources.requests.storage} {.metadata.ownerReferences[0].uid}"))
	known := claims.Known(vmi, claims.StateVolume)
	require.NotNil(t, known, "%+v", vmi.Status.VolumeStatus)
	require.Equal(t, claim, known.ClaimName)
	m.untilAgentAnswers()
	const variable = "/sys/firmware/efi/efivars/Virtflow-5b1a6c3e-2f4d-4c0e-9d3b-7e8f90a1b2c3"
	const efivars = "grep -q efivarfs /proc/mounts || mount -t efivarfs efivarfs /sys/firmware/efi/efivars; "
	// The public part of the endorsement key (TPM2_ReadPublic of handle 0x81010001), which no other TPM has.
	const endorsement = `exec 3<>/dev/tpm0; printf '\200\001\000\000\000\016\000\000\001\163\201\001\000\001' >&3; ` +
		`head -c 1000 <&3 | od -An -v -tx1 | tr -d ' \n'`
	key := m.inGuestBy(endorsement)
	require.Greater(t, len(key), 200, key)
	m.inGuestBy(efivars + `printf '\007\000\000\000kept' > ` + variable)
	m.strategy("Halted")
	m.untilStatus("Stopped")
	for _, file := range []string{"nvram/VARS.fd", "swtpm/tpm2/tpm2-00.permall"} {
		_, err := os.Stat(filepath.Join(dir, "current", file))
		require.NoError(t, err)
	}
	m.strategy("Always")
	m.untilBooted()
	m.untilAgentAnswers()
	require.Equal(t, key, m.inGuestBy(endorsement))
	require.Equal(t, "kept", strings.TrimSpace(m.inGuestBy(efivars+"tail -c +5 "+variable)))
	m.remove()
	m.kubectl("wait", "--for=delete", "pvc/"+claim, "--timeout=60s")
}
