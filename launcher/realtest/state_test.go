//go:build libvirt

package realtest

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// remembering is a VMI whose machine has persistent state.
func remembering(t *testing.T) string {
	t.Helper()
	return machineOf(t, `{"memory":{"guest":"512Mi"},"features":{"smm":{}},
		"firmware":{"bootloader":{"efi":{"persistent":true}}},"devices":{"tpm":{"persistent":true}}}`)
}

// hasState gives a pod the PVC with its machine's persistent state, as the kubelet mounts it.
func (p *pod) hasState(dir string) *pod {
	p.t.Helper()
	p.eventually("the launcher is there", func() bool { _, found := p.process("launcher"); return found })
	p.mounts("--bind", dir, "state")
	return p
}

const (
	// variable is a UEFI variable that is used nowhere else. Its first four bytes are its attributes. The kernel makes
	// existing ones immutable.
	variable = `/sys/firmware/efi/efivars/%s-5b1a6c3e-2f4d-4c0e-9d3b-7e8f90a1b2c3`
	// efivars makes UEFI's variables files.
	efivars = `grep -q efivarfs /proc/mounts || mount -t efivarfs efivarfs /sys/firmware/efi/efivars; `
	// endorsement asks the TPM for its endorsement key (TPM2_ReadPublic of handle 0x81010001), which no other has.
	endorsement = `exec 3<>/dev/tpm0; printf '\200\001\000\000\000\016\000\000\001\163\201\001\000\001' >&3; ` +
		`head -c 1000 <&3 | od -An -v -tx1 | tr -d ' \n'`
)

// key is the public part of the TPM's endorsement key.
func (p *pod) key() string {
	p.t.Helper()
	answer := p.guest(endorsement)
	require.Greater(p.t, len(answer), 200, answer)
	require.Equal(p.t, "00000000", answer[12:20], "the TPM refuses: %s", answer)
	return answer
}

func (p *pod) makeVariable(name, value string) {
	p.t.Helper()
	p.guest(efivars + `printf '\007\000\000\000` + value + `' > ` + fmt.Sprintf(variable, name))
}

// reads is the value of a variable; "none": it is not there.
func (p *pod) reads(name string) string {
	p.t.Helper()
	file := fmt.Sprintf(variable, name)
	return p.guest(efivars + `if test -e ` + file + `; then tail -c +5 ` + file + `; else echo none; fi`)
}

// TestStateOfMachineOutlivesItsPod: what UEFI and the TPM remember is there in the next pod, and in that of no
// other machine.
func TestStateOfMachineOutlivesItsPod(t *testing.T) {
	suite.TakeTurn(t, 0)
	dir := fileSystem(t)
	first := newPod(t, remembering(t)).hasState(dir)
	first.boot()
	require.Contains(t, first.guest("dmesg | grep -i 'secure boot'"), "Secure boot enabled")
	key := first.key()
	first.makeVariable("First", "kept")
	first.shutDown()

	second := newPod(t, remembering(t)).hasState(dir)
	second.boot()
	require.Equal(t, key, second.key())
	require.Equal(t, "kept", second.reads("First"))
	second.shutDown()

	other := newPod(t, remembering(t)).hasState(fileSystem(t))
	other.boot()
	require.NotEqual(t, key, other.key())
	require.Equal(t, "none", other.reads("First"))
}

// TestMachineMovesWithItsState: both ends have the PVC, and the target continues with the state that came with the
// guest.
func TestMachineMovesWithItsState(t *testing.T) {
	suite.TakeTurn(t, 2)
	dir := fileSystem(t)
	from := newPodAt(t, remembering(t), "", mountPoint).hasState(dir)
	to := newPodAt(t, remembering(t), "", mountPoint).hasState(dir)
	from.boot()
	key := from.key()
	from.makeVariable("First", "before")
	newMove(t, from, to).goes()
	require.Equal(t, key, to.key())
	require.Equal(t, "before", to.reads("First"))
	to.makeVariable("Second", "after")
	to.shutDown()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "what counts, and which that is: %v", left)
	next := newPod(t, remembering(t)).hasState(dir)
	next.boot()
	require.Equal(t, key, next.key())
	require.Equal(t, "before", next.reads("First"))
	require.Equal(t, "after", next.reads("Second"))
}
