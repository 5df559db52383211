package claims_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/claims"
)

func TestConcurrentUse(t *testing.T) {
	yes := true
	on := func(change func(*kubevirt.Volume, *kubevirt.Disk)) claims.Use {
		v, d := kubevirt.Volume{Name: "data"}, kubevirt.Disk{Name: "data"}
		v.PersistentVolumeClaim = &kubevirt.PersistentVolumeClaimVolumeSource{}
		v.PersistentVolumeClaim.ClaimName = "c"
		change(&v, &d)
		vmi := &kubevirt.VirtualMachineInstance{}
		vmi.Spec.Volumes, vmi.Spec.Domain.Devices.Disks = []kubevirt.Volume{v}, []kubevirt.Disk{d}
		return claims.UseOf(vmi, "c")
	}
	writer := on(func(*kubevirt.Volume, *kubevirt.Disk) {})
	together := on(func(_ *kubevirt.Volume, d *kubevirt.Disk) { d.Shareable = &yes })
	reader := on(func(v *kubevirt.Volume, _ *kubevirt.Disk) { v.PersistentVolumeClaim.ReadOnly = true })
	above := on(func(v *kubevirt.Volume, _ *kubevirt.Disk) {
		source := &v.PersistentVolumeClaim.PersistentVolumeClaimVolumeSource
		v.Ephemeral = &kubevirt.EphemeralVolumeSource{PersistentVolumeClaim: source}
		v.PersistentVolumeClaim = nil
	})
	for _, c := range []struct {
		a, b claims.Use
		can  bool
	}{
		{writer, writer, false}, {writer, together, false}, {together, together, true}, {writer, reader, false},
		{together, above, false}, {reader, reader, true}, {above, above, true}, {reader, above, true},
	} {
		require.Equal(t, c.can, c.a.With(c.b), "%+v and %+v", c.a, c.b)
		require.Equal(t, c.can, c.b.With(c.a), "%+v and %+v", c.b, c.a)
	}
}
