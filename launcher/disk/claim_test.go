package disk_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/hardware"
	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domain"
)

const mebibyte = 1 << 20

// claimed is an instance with one PVC, with these facts in its status.
func claimed(t *testing.T, volume, info string) *v1.VirtualMachineInstance {
	t.Helper()
	v := vmi(t, `{"domain":{"devices":{"disks":[{"name":"data"}]}},"volumes":[{"name":"data",`+volume+`}]}`)
	if info != "" {
		v.Status.VolumeStatus = []v1.VolumeStatus{{Name: "data",
			PersistentVolumeClaimInfo: &v1.PersistentVolumeClaimInfo{}}}
		require.NoError(t, json.Unmarshal([]byte(info), v.Status.VolumeStatus[0].PersistentVolumeClaimInfo))
	}
	return v
}

const (
	aClaim = `"persistentVolumeClaim":{"claimName":"c"}`
	ofSize = `{"requests":{"storage":"10M"},"capacity":{"storage":"20Mi"}}`
)

// onClaim makes the disk of a PVC that has these files.
func onClaim(
	t *testing.T, v *v1.VirtualMachineInstance, received bool, prepare func(dir string),
) (domain.Volume, error) {
	t.Helper()
	return onClaimWithin(t, hardware.Default().Disks, v, received, prepare)
}

func onClaimWithin(
	t *testing.T, limits hardware.Disks, v *v1.VirtualMachineInstance, received bool, prepare func(dir string),
) (domain.Volume, error) {
	t.Helper()
	at := directories(t)
	dir := t.TempDir()
	at.Claims, at.Devices = filepath.Join(dir, "claims"), filepath.Join(dir, "devices")
	require.NoError(t, os.MkdirAll(filepath.Join(at.Claims, "data"), 0o700))
	require.NoError(t, os.MkdirAll(at.Devices, 0o700))
	if prepare != nil {
		prepare(dir)
	}
	plan, err := disk.Plan(v, at)
	if err != nil {
		return domain.Volume{}, err
	}
	if received {
		plan = disk.Received(plan)
	}
	img := fakeQemuImg(t, "{}")
	made, err := disk.NewPreparer(img.path, img, limits).Prepare(context.Background(), v, plan)
	return made["data"], err
}

// TestFileOfClaim: the file on a PVC is created once, sparse, with the requested size in whole MiB.
func TestFileOfClaim(t *testing.T) {
	made, err := onClaim(t, claimed(t, aClaim, ofSize), false, nil)
	require.NoError(t, err)
	require.Equal(t, int64(9*mebibyte), made.Size)
	require.Equal(t, "disk.img", filepath.Base(made.Path))
	require.Equal(t, "raw", made.Format)
	require.True(t, made.Claim)
	require.False(t, made.Allocated)
	require.False(t, made.ReadOnly)

	made, err = onClaim(t, claimed(t, aClaim, `{"requests":{"storage":"20Mi"},"capacity":{"storage":"7Mi"}}`), false, nil)
	require.NoError(t, err)
	require.Equal(t, int64(7*mebibyte), made.Size, "it has less than was asked for")

	there := func(content string) func(string) {
		return func(dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "claims/data/disk.img"), []byte(content), 0o600))
		}
	}
	made, err = onClaim(t, claimed(t, aClaim, ofSize), false, there("what a guest wrote"))
	require.NoError(t, err)
	require.Equal(t, int64(18), made.Size)
	require.True(t, made.Allocated)
	content, err := os.ReadFile(made.Path)
	require.NoError(t, err)
	require.Equal(t, "what a guest wrote", string(content))

	made, err = onClaim(t, claimed(t, aClaim, ofSize), false, there(""))
	require.NoError(t, err)
	require.Equal(t, int64(9*mebibyte), made.Size, "the process that made it was killed before it had a size")

	made, err = onClaim(t, claimed(t, `"persistentVolumeClaim":{"claimName":"c","readOnly":true}`, ofSize), false,
		there("image"))
	require.NoError(t, err)
	require.True(t, made.ReadOnly)

	made, err = onClaim(t, claimed(t, `"ephemeral":{"persistentVolumeClaim":{"claimName":"c"}}`, ofSize), false,
		there("image"))
	require.NoError(t, err)
	require.Equal(t, "data-overlay.qcow2", filepath.Base(made.Path))
	require.Equal(t, "qcow2", made.Format)
	require.Equal(t, int64(5), made.Size)
	require.False(t, made.Claim, "what the guest writes is its own")
	require.False(t, made.ReadOnly)
}

// TestGrowsFileOfGrownClaim: the file grows when the guest starts, to the PVC's size less the file system's overhead,
// and never shrinks.
func TestGrowsFileOfGrownClaim(t *testing.T) {
	const info = `{"requests":{"storage":"100Mi"},"capacity":{"storage":"40Mi"},"filesystemOverhead":"0.055"`
	for name, c := range map[string]struct {
		volume, info string
		had, want    int64
		received     bool
	}{
		"it has":                      {had: 20 * mebibyte, want: 37 * mebibyte},
		"its space stays allocated":   {info: info + `,"preallocated":true}`, had: 20 * mebibyte, want: 37 * mebibyte},
		"it has not":                  {had: 39 * mebibyte, want: 39 * mebibyte},
		"it has shrunk":               {had: 50 * mebibyte, want: 50 * mebibyte},
		"its guest is received":       {had: 20 * mebibyte, want: 20 * mebibyte, received: true},
		"the overhead is not known":   {info: `{"requests":{"storage":"100Mi"}}`, had: mebibyte, want: mebibyte},
		"the overhead is no number":   {info: `{"requests":{"storage":"9Mi"},"filesystemOverhead":"x"}`, had: 7, want: 7},
		"it cannot be written":        {volume: `"persistentVolumeClaim":{"claimName":"c","readOnly":true}`, had: 7, want: 7},
		"the guest writes into layer": {volume: `"ephemeral":{"persistentVolumeClaim":{"claimName":"c"}}`, had: 7, want: 7},
	} {
		t.Run(name, func(t *testing.T) {
			if c.volume == "" {
				c.volume = aClaim
			}
			if c.info == "" {
				c.info = info + "}"
			}
			made, err := onClaim(t, claimed(t, c.volume, c.info), c.received, func(dir string) {
				file := filepath.Join(dir, "claims/data/disk.img")
				require.NoError(t, os.WriteFile(file, []byte("content"), 0o600))
				require.NoError(t, os.Truncate(file, c.had))
			})
			require.NoError(t, err)
			require.Equal(t, c.want, made.Size)
			if made.Format == "raw" {
				content, err := os.ReadFile(made.Path)
				require.NoError(t, err)
				require.Equal(t, "content", string(content[:7]))
			}
		})
	}
}

func TestNamesProblemOfClaim(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
	for want, c := range map[string]struct {
		volume, info string
		received     bool
		prepare      func(dir string)
	}{
		"no facts about its PersistentVolumeClaim": {},
		"the size for volume data is too low":      {info: `{"requests":{"storage":"1M"}}`},
		"not enough space, demanded size 1152921504606846976 B is bigger than available space": {
			info: `{"requests":{"storage":"1Ei"}}`},
		"disk.img is not a regular file": {info: ofSize, prepare: func(dir string) {
			require.NoError(t, os.Symlink(outside, filepath.Join(dir, "claims/data/disk.img")))
		}},
		"its file system cannot be opened: no such file or directory": {info: ofSize, prepare: func(dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "claims/data")))
		}},
		"its file system has no disk.img": {info: ofSize, received: true},
		"its device: no such file or directory": {
			info: `{"volumeMode":"Block","requests":{"storage":"10Mi"}}`},
		"data is not a block device": {info: `{"volumeMode":"Block"}`, prepare: func(dir string) {
			require.NoError(t, os.Symlink(outside, filepath.Join(dir, "devices/data")))
		}},
	} {
		t.Run(want, func(t *testing.T) {
			if c.volume == "" {
				c.volume = aClaim
			}
			_, err := onClaim(t, claimed(t, c.volume, c.info), c.received, c.prepare)
			require.ErrorContains(t, err, want)
			var final *disk.Error
			require.ErrorAs(t, err, &final, "another attempt does not help")
		})
	}
	for _, volume := range []string{
		`"persistentVolumeClaim":{"claimName":"c","readOnly":true}`, `"ephemeral":{"persistentVolumeClaim":{"claimName":"c"}}`,
	} {
		_, err := onClaim(t, claimed(t, volume, ofSize), false, nil)
		require.ErrorContains(t, err, "its file system has no disk.img", "nothing is made where nothing is to be written")
	}
}

// TestToleratesLittleLessSpace: file systems need some of the requested space themselves.
func TestToleratesLittleLessSpace(t *testing.T) {
	of100 := disk.Volume{Name: "data", Path: "/claims/data/disk.img", Size: 100 * mebibyte}
	for free, want := range map[int64]int64{
		100 * mebibyte: 100, 99*mebibyte + 5: 99, 90 * mebibyte: 90, 89 * mebibyte: 0,
	} {
		size, err := disk.Fitting(of100, free, 10)
		require.Equal(t, want*mebibyte, size)
		require.Equal(t, want == 0, err != nil)
	}
	_, err := disk.Fitting(of100, 79*mebibyte, 20)
	require.ErrorContains(t, err, "also after taking 20 % toleration into account")
	_, err = disk.Fitting(of100, mebibyte-1, 100)
	require.ErrorContains(t, err, "not enough space", "a disk without any")
}

// TestKeepsReserveFree: the reserve of the cluster's configuration stays free.
func TestKeepsReserveFree(t *testing.T) {
	limits := hardware.Default().Disks
	limits.Reserve = math.MaxInt64 / 2
	_, err := onClaimWithin(t, limits, claimed(t, aClaim, ofSize), false, nil)
	require.ErrorContains(t, err, "not enough space")
}

// TestRetriesDeviceThatIsNotGivenYet: the permissions of a file, and a refusal by the device rules of the cgroup, are
// permanent.
func TestRetriesDeviceThatIsNotGivenYet(t *testing.T) {
	for name, c := range map[string]struct {
		kind   disk.Kind
		err    error
		passes bool
	}{
		"another user's device": {disk.ClaimDevice, unix.EACCES, true},
		"not a pod's device":    {disk.ClaimDevice, unix.EPERM, false},
		"a read-only device":    {disk.ClaimDevice, unix.EROFS, false},
		"another user's file":   {disk.ClaimFile, unix.EACCES, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := disk.NotOpened(disk.Volume{Name: "data", Kind: c.kind},
				&os.PathError{Op: "open", Path: "/dev/data", Err: c.err})
			require.ErrorContains(t, err, "may not open")
			require.ErrorContains(t, err, c.err.Error())
			require.NotContains(t, err.Error(), "/dev/data")
			var final *disk.Error
			require.Equal(t, !c.passes, errors.As(err, &final))
			require.Equal(t, c.passes, errors.Is(err, disk.ErrNotGiven))
		})
	}
}
