//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestPersistentState: the data of the TPM and UEFI moves with the guest to another node and survives a stop, on a PVC
// that is deleted with the VM.
func TestPersistentState(t *testing.T) {
	suite.TakeTurn(t, 3)
	m := &machine{t: t, namespace: newNamespace(t), name: "remembers", taps: taps()}
	class := func(name string) { configured(t, `{"configuration":{"vmStateStorageClass":`+name+`}}`) }
	t.Cleanup(func() { class("null") })
	class(`"shared"`)
	manifest := strings.NewReplacer("guest: 128Mi", "guest: 512Mi", "        devices:\n",
		"        features: {smm: {}}\n        firmware: {bootloader: {efi: {persistent: true}}}\n"+
			"        devices:\n          tpm: {persistent: true}\n").Replace(m.manifest("Halted", ""))
	require.Contains(t, manifest, "tpm:")
	apply(t, manifest)
	vm, err := m.vm()
	require.NoError(t, err)
	claim := claims.StatePrefix + "-" + m.name + "-" + contract.ShortUID(string(vm.UID))
	m.strategy("Always")
	vmi := m.untilBooted()
	require.Equal(t, "10Mi shared ReadWriteMany "+string(vm.UID), m.kubectl("get", "pvc", claim, "-o",
		"jsonpath={.spec.resources.requests.storage} {.spec.storageClassName} {.spec.accessModes[0]} "+
			"{.metadata.ownerReferences[0].uid}"))
	known := claims.Known(vmi, claims.StateVolume)
	require.NotNil(t, known, "%+v", vmi.Status.VolumeStatus)
	require.Equal(t, claim, known.ClaimName)
	m.untilAgentAnswers()
	const variable = "/sys/firmware/efi/efivars/Virtflow-5b1a6c3e-2f4d-4c0e-9d3b-7e8f90a1b2c3"
	const efivars = "grep -q efivarfs /proc/mounts || mount -t efivarfs efivarfs /sys/firmware/efi/efivars; "
	// The public part of the endorsement key (TPM2_ReadPublic of handle 0x81010001), which is unique to this TPM.
	const endorsement = `exec 3<>/dev/tpm0; printf '\200\001\000\000\000\016\000\000\001\163\201\001\000\001' >&3; ` +
		`head -c 1000 <&3 | od -An -v -tx1 | tr -d ' \n'`
	key := m.runByAgent(endorsement)
	require.Greater(t, len(key), 200, key)
	m.runByAgent(efivars + `printf '\007\000\000\000kept' > ` + variable)
	remembers := func() {
		t.Helper()
		require.Equal(t, key, m.runByAgent(endorsement))
		require.Equal(t, "kept", strings.TrimSpace(m.runByAgent(efivars+"tail -c +5 "+variable)))
	}
	m.createMigration("moves", "", "")
	m.untilMigrated()
	m.onePod()
	remembers()
	m.strategy("Halted")
	m.untilStatus("Stopped")
	m.strategy("Always")
	m.untilBooted()
	m.untilAgentAnswers()
	remembers()
	m.remove()
	m.kubectl("wait", "--for=delete", "pvc/"+claim, "--timeout=60s")
}
