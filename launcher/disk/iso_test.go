package disk_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/hardware"
	"github.com/virtflow/virtflow/launcher/disk"
)

func put(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// label returns the label in an image's primary volume descriptor.
func label(image []byte) string {
	return string(bytes.TrimRight(image[16*2048+40:16*2048+72], "\x00 "))
}

func TestEachVolumeOfFiles(t *testing.T) {
	for name, c := range map[string]struct{ volume, label string }{
		"secret":          {`"secret":{"secretName":"s"}`, "cfgdata"},
		"labelled secret": {`"secret":{"secretName":"s","volumeLabel":"MINE"}`, "MINE"},
		"configMap":       {`"configMap":{"name":"s","volumeLabel":"settings"}`, "settings"},
		"downwardAPI":     {`"downwardAPI":{"fields":[],"volumeLabel":"podinfo"}`, "podinfo"},
		"serviceAccount":  {`"serviceAccount":{"serviceAccountName":"s"}`, "cfgdata"},
		"sysprep":         {`"sysprep":{"secret":{"name":"s"}}`, "unattendCD"},
	} {
		t.Run(name, func(t *testing.T) {
			at := directories(t)
			put(t, filepath.Join(at.Files, "v", "Autounattend.XML"), "content: of "+name)
			path, err := prepare(t, at,
				`{"domain":{"devices":{"disks":[{"name":"v"}]}},"volumes":[{"name":"v",`+c.volume+`}]}`, "")
			require.NoError(t, err)
			image, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, c.label, label(image))
			require.Contains(t, string(image), "content: of "+name)
			require.Contains(t, string(image), "Autounattend.XML")

			put(t, filepath.Join(at.Files, "v", "Autounattend.XML"), "content: changed")
			_, err = prepare(t, at,
				`{"domain":{"devices":{"disks":[{"name":"v"}]}},"volumes":[{"name":"v",`+c.volume+`}]}`, "")
			require.NoError(t, err)
			again, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, image, again, "an instance keeps what it was started with")
		})
	}
}

func TestConfigDriveHasItsData(t *testing.T) {
	at := directories(t)
	put(t, filepath.Join(at.CloudInit, "c", "userdata"), "content: user")
	put(t, filepath.Join(at.NetworkData, "c", "networkData"), "content: network")
	path, err := prepare(t, at, `{"domain":{"devices":{"disks":[{"name":"c"}]}},"volumes":[{"name":"c",`+
		`"cloudInitConfigDrive":{"networkDataSecretRef":{"name":"n"}}}]}`, "")
	require.NoError(t, err)
	image, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "config-2", label(image))
	for _, want := range []string{"content: user", "content: network", `"instance_id":"vm1.default"`, `"hostname":"vm1"`} {
		require.Contains(t, string(image), want)
	}
}

// TestSSHKeysGoWithTheirCloudInitVolume: each by the propagation method that it names, and all files of each Secret
// once.
func TestSSHKeysGoWithTheirCloudInitVolume(t *testing.T) {
	const key = `{"sshPublicKey":{"source":{"secret":{"secretName":"`
	for kind, want := range map[string]string{
		"cloudInitNoCloud":     `"public-keys":{"0":"ssh-rsa one","1":"ssh-rsa two"}`,
		"cloudInitConfigDrive": `"public_keys":{"0":"ssh-rsa three"}`,
	} {
		at := directories(t)
		put(t, filepath.Join(at.CloudInit, "c", "userdata"), "x")
		put(t, filepath.Join(at.AccessCredentials, "a", "key1"), "ssh-rsa one")
		put(t, filepath.Join(at.AccessCredentials, "a", "key2"), "ssh-rsa two")
		put(t, filepath.Join(at.AccessCredentials, "a", "none"), "")
		put(t, filepath.Join(at.AccessCredentials, "b", "key"), "ssh-rsa three")
		path, err := prepare(t, at, `{"domain":{"devices":{"disks":[{"name":"c"}]}},"volumes":[{"name":"c","`+kind+
			`":{}}],"accessCredentials":[`+
			key+`a"}},"propagationMethod":{"noCloud":{}}}},`+key+`a"}},"propagationMethod":{"noCloud":{}}}},`+
			key+`b"}},"propagationMethod":{"configDrive":{}}}},`+
			key+`c"}},"propagationMethod":{"qemuGuestAgent":{"users":["u"]}}}}]}`, "")
		require.NoError(t, err)
		image, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(image), want)
	}
}

func TestRefusesFilesWithoutDisk(t *testing.T) {
	const spec = `{"domain":{"devices":{"disks":[{"name":"v"}]}},"volumes":[{"name":"v",`
	at := directories(t)
	put(t, filepath.Join(at.Files, "v", "readme.txt"), "x")
	_, err := prepare(t, at, spec+`"sysprep":{"configMap":{"name":"s"}}}]}`, "")
	var wrong *disk.Error
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, "Sysprep drive should contain autounattend.xml or unattend.xml")

	put(t, filepath.Join(at.Files, "v", string(bytes.Repeat([]byte("k"), 200))), "x")
	_, err = prepare(t, at, spec+`"configMap":{"name":"s"}}]}`, "")
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, "more than 103 characters")

	_, err = prepare(t, directories(t), spec+`"secret":{"secretName":"s"}}]}`, "")
	require.ErrorAs(t, err, &wrong)
}

// TestAwaitedImageIsEmpty: an image that a migration fills is empty, of the size at the source, and is not written
// again.
func TestAwaitedImageIsEmpty(t *testing.T) {
	at := directories(t)
	v := vmi(t, `{"domain":{"devices":{"disks":[{"name":"v"},{"name":"e"}]}},"volumes":[{"name":"v","secret":{"secretName":"s"}},`+
		`{"name":"e","emptyDisk":{"capacity":"1Mi"}}]}`)
	plan, err := disk.Plan(v, at)
	require.NoError(t, err)
	for _, size := range []int64{-1, 0, contract.LargestMigrationFile + 1} {
		require.ErrorContains(t, disk.Await(plan, "v", size), "not a valid size")
	}
	require.NoError(t, disk.Await(plan, "e", 1<<40), "another kind is made as ever")
	require.NoError(t, disk.Await(plan, "other", 1))
	require.NoError(t, disk.Await(plan, "v", 8192))
	put(t, filepath.Join(at.Files, "v", "key"), "content")
	img := fakeQemuImg(t, "{}")
	made, err := disk.NewPreparer(img.path, img, hardware.Default().Disks).Prepare(t.Context(), v, plan)
	require.NoError(t, err)
	require.EqualValues(t, 8192, made["v"].Size)
	image, err := os.ReadFile(made["v"].Path)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 8192), image)
}

// TestRefusesImageTooLargeToMigrate: the image is refused when the guest starts, and not only when its node is drained.
func TestRefusesImageTooLargeToMigrate(t *testing.T) {
	at := directories(t)
	for i := range 5 { // only a user's directory has so much: a Secret has 1 MiB
		put(t, filepath.Join(at.Files, "v", fmt.Sprint(i)), string(bytes.Repeat([]byte("x"), 1<<20)))
	}
	_, err := prepare(t, at, `{"domain":{"devices":{"disks":[{"name":"v"}]}},"volumes":[{"name":"v",`+
		`"secret":{"secretName":"s"}}]}`, "")
	var wrong *disk.Error
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, "a guest with more than 4194304 cannot migrate")
}
