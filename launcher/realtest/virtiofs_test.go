//go:build libvirt

package realtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestFileSystemsOfGuest: two guests have a claim's files together, and one of them a ConfigMap's, which it sees
// change and cannot write. What the guest writes belongs to the launcher's user.
func TestFileSystemsOfGuest(t *testing.T) {
	dir := fileSystem(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "found"), []byte("of the host"), 0o644))
	object := claimVMI("Filesystem", "32Mi", onClaim(), nil)
	var shared map[string]any
	require.NoError(t, json.Unmarshal([]byte(object), &shared))
	spec := shared["spec"].(map[string]any)
	devices := spec["domain"].(map[string]any)["devices"].(map[string]any)
	disks := devices["disks"].([]any)
	devices["disks"] = disks[:len(disks)-1] // the claim is none
	devices["filesystems"] = []any{map[string]any{"name": "data", "virtiofs": map[string]any{}},
		map[string]any{"name": "settings", "virtiofs": map[string]any{}}}
	spec["volumes"] = append(spec["volumes"].([]any),
		map[string]any{"name": "settings", "configMap": map[string]any{"name": "c"}})
	b, err := json.Marshal(shared)
	require.NoError(t, err)

	first := newPod(t, string(b)).gives(dir)
	first.put("files/settings/key", "first")
	first.boot()
	first.shell(`mkdir -p /data /settings; mount -t virtiofs data /data && mount -t virtiofs settings /settings; ` +
		`echo "found:$(cat /data/found)"; echo of-the-guest >/data/made; echo "made:$?"; ` +
		`until grep -q second /settings/key; do sleep 1; done; echo "settings:$(cat /settings/key)"; ` +
		`until grep -qs second /data/of-another; do sleep 1; done; echo "another:$(cat /data/of-another)"`)
	first.says("found:of the host")
	first.says("made:0")
	made, err := os.Stat(filepath.Join(dir, "made"))
	require.NoError(t, err)
	require.EqualValues(t, qemuUser, made.Sys().(*syscall.Stat_t).Uid)
	first.put("files/settings/key", "second")
	first.says("settings:second")

	second := newPod(t, string(b)).gives(dir)
	second.put("files/settings/key", "other")
	second.boot()
	second.shell(`mkdir -p /data; mount -t virtiofs data /data; echo "read:$(cat /data/made)"; ` +
		`echo of-the-second >/data/of-another`)
	second.says("read:of-the-guest")
	first.says("another:of-the-second")
	require.NoFileExists(t, filepath.Join(dir, "disk.img"))
	first.shutDown()
	second.shutDown()
}

// TestBlockClaimIsNoFileSystem: a PVC that is a block device is refused as a file system, and the error says so.
func TestBlockClaimIsNoFileSystem(t *testing.T) {
	suite.TakeTurn(t, 0)
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(claimVMI("Block", "32Mi", onClaim(), nil)), &object))
	devices := object["spec"].(map[string]any)["domain"].(map[string]any)["devices"].(map[string]any)
	disks := devices["disks"].([]any)
	devices["disks"] = disks[:len(disks)-1]
	devices["filesystems"] = []any{map[string]any{"name": "data", "virtiofs": map[string]any{}}}
	b, err := json.Marshal(object)
	require.NoError(t, err)
	p := newPod(t, string(b))
	_, err = p.client.StartDomain(p.context(), &rpc.StartDomainRequest{})
	require.ErrorContains(t, err, "spec.domain.devices.filesystems[0]: the PVC of volume data is a block device")
}
