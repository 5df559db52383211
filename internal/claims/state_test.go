package claims_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/claims"
)

func TestStateClaim(t *testing.T) {
	yes, no := true, false
	with := func(change func(*kubevirt.VirtualMachineInstance)) *kubevirt.VirtualMachineInstance {
		vmi := &kubevirt.VirtualMachineInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "11112222-3333"}}
		change(vmi)
		return vmi
	}
	tpm := func(d kubevirt.TPMDevice) func(*kubevirt.VirtualMachineInstance) {
		return func(vmi *kubevirt.VirtualMachineInstance) { vmi.Spec.Domain.Devices.TPM = &d }
	}
	efi := func(persistent *bool) func(*kubevirt.VirtualMachineInstance) {
		return func(vmi *kubevirt.VirtualMachineInstance) {
			vmi.Spec.Domain.Firmware = &kubevirt.Firmware{
				Bootloader: &kubevirt.Bootloader{EFI: &kubevirt.EFI{Persistent: persistent}}}
		}
	}
	owned := func(kind string) func(*kubevirt.VirtualMachineInstance) {
		return func(vmi *kubevirt.VirtualMachineInstance) {
			efi(&yes)(vmi)
			vmi.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "web", UID: "aaaabbbb-cccc",
				Controller: &yes}}
		}
	}
	for name, c := range map[string]struct {
		change func(*kubevirt.VirtualMachineInstance)
		want   string
	}{
		"nothing":              {func(*kubevirt.VirtualMachineInstance) {}, ""},
		"a TPM":                {tpm(kubevirt.TPMDevice{}), ""},
		"one that remembers":   {tpm(kubevirt.TPMDevice{Persistent: &yes}), "persistent-state-for-web-11112222"},
		"one that does not":    {tpm(kubevirt.TPMDevice{Persistent: &no}), ""},
		"one that is off":      {tpm(kubevirt.TPMDevice{Persistent: &yes, Enabled: &no}), ""},
		"UEFI":                 {efi(nil), ""},
		"UEFI that remembers":  {efi(&yes), "persistent-state-for-web-11112222"},
		"a VM's":               {owned("VirtualMachine"), "persistent-state-for-web-aaaabbbb"},
		"one of a replica set": {owned("VirtualMachineInstanceReplicaSet"), "persistent-state-for-web-11112222"},
	} {
		got, needed := claims.State(with(c.change))
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.want != "", needed, name)
	}
	orphan := with(owned("VirtualMachine"))
	orphan.OwnerReferences = nil
	orphan.Status.VolumeStatus = []kubevirt.VolumeStatus{{Name: claims.StateVolume,
		PersistentVolumeClaimInfo: &kubevirt.PersistentVolumeClaimInfo{ClaimName: "persistent-state-for-web-aaaabbbb"}}}
	name, _ := claims.State(orphan)
	require.Equal(t, "persistent-state-for-web-aaaabbbb", name, "an instance keeps its own")
	long := with(efi(&yes))
	long.Name = strings.Repeat("a.", 126)
	name, _ = claims.State(long)
	require.Empty(t, validation.IsDNS1123Subdomain(name), name)
}
