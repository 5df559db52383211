package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/launcher/rpc"
)

func (o *outside) Resize(path string, bytes int64) error {
	return o.done(fmt.Sprintf("%s has %d MiB", filepath.Base(filepath.Dir(path)), bytes>>20))
}

// TestResizesDisksOfGrownClaims: each file becomes as large as its PVC, less what the file system needs, and never
// smaller, and libvirt is notified. A caller may name other PVCs as well, and may call again.
func TestResizesDisksOfGrownClaims(t *testing.T) {
	l, o := operated(t, false, nil)
	l.cfg.Claims = t.TempDir()
	l.vmi = &v1.VirtualMachineInstance{}
	mode := corev1.PersistentVolumeFilesystem
	for _, name := range []string{"grows", "stays", "is-read"} {
		require.NoError(t, os.Mkdir(filepath.Join(l.cfg.Claims, name), 0o700))
		file := filepath.Join(l.cfg.Claims, name, "disk.img")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.NoError(t, os.Truncate(file, 60<<20))
		source := &v1.PersistentVolumeClaimVolumeSource{}
		source.ClaimName, source.ReadOnly = name, name == "is-read"
		l.vmi.Spec.Volumes = append(l.vmi.Spec.Volumes,
			v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: source}})
		l.vmi.Spec.Domain.Devices.Disks = append(l.vmi.Spec.Domain.Devices.Disks, v1.Disk{Name: name})
		info := claims.Info(contract.VolumeClaim{Capacity: "64Mi", Requests: "64Mi", VolumeMode: string(mode)})
		l.vmi.Status.VolumeStatus = append(l.vmi.Status.VolumeStatus,
			v1.VolumeStatus{Name: name, PersistentVolumeClaimInfo: info})
	}
	request := &rpc.OperateRequest{Operation: rpc.Operation_OPERATION_RESIZE, Claims: []*rpc.ClaimSize{
		{Volume: "grows", Capacity: "100Mi", Requests: "128Mi"}, {Volume: "is-read", Capacity: "100Mi"},
		{Volume: "unknown", Capacity: "100Mi"},
	}}
	for range 2 {
		_, err := l.operate(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, "grows has 94 MiB", <-o.said)
		require.Empty(t, o.said)
	}
	for name, want := range map[string]int64{"grows": 94, "stays": 60, "is-read": 60} {
		info, err := os.Stat(filepath.Join(l.cfg.Claims, name, "disk.img"))
		require.NoError(t, err)
		require.Equal(t, want<<20, info.Size(), name)
	}
	known := claims.Known(l.vmi, "grows").Capacity[corev1.ResourceStorage]
	require.True(t, known.Equal(resource.MustParse("64Mi")), "what the launcher was started with stays as it is")

	request.Claims = []*rpc.ClaimSize{{Volume: "grows", Capacity: "70Mi"}}
	_, err := l.operate(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, "grows has 94 MiB", <-o.said, "it is never made smaller")
}
