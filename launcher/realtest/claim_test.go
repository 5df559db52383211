//go:build libvirt

package realtest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// claimVMI is an instance with one more disk, data (vdd), on a PVC of that access mode.
func claimVMI(mode, requests string, source map[string]any, disk map[string]any) string {
	var object map[string]any
	if err := json.Unmarshal([]byte(vmi(func(spec map[string]any) {
		devices := spec["domain"].(map[string]any)["devices"].(map[string]any)
		d := map[string]any{"name": "data", "disk": map[string]any{"bus": "virtio"}}
		for k, v := range disk {
			d[k] = v
		}
		v := map[string]any{"name": "data"}
		for k, x := range source {
			v[k] = x
		}
		devices["disks"] = append(devices["disks"].([]any), d)
		spec["volumes"] = append(spec["volumes"].([]any), v)
	})), &object); err != nil {
		panic(err)
	}
	object["status"] = map[string]any{"volumeStatus": []any{map[string]any{"name": "data", "target": "",
		"persistentVolumeClaimInfo": map[string]any{"claimName": "data", "volumeMode": mode,
			"accessModes": []string{"ReadWriteMany"}, "requests": map[string]any{"storage": requests}}}}}
	b, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func onClaim() map[string]any {
	return map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "data"}}
}

// fileSystem is that of a PVC, which pods mount one after the other, or at once.
func fileSystem(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vfclaim")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chown(dir, qemuUser, qemuUser))
	return dir
}

// gives mounts a PVC where a pod has its claims, as the kubelet does.
func (p *pod) gives(dir string) *pod {
	p.t.Helper()
	require.NoError(p.t, os.Symlink(dir, p.at("claims/data")))
	return p
}

// says waits for a line on the guest's console.
func (p *pod) says(line string) {
	p.t.Helper()
	p.eventually("the guest says "+line, func() bool { return strings.Contains(p.log(), "guest console: "+line) })
}

// shutDown ends the pod as a kubelet does.
func (p *pod) shutDown() {
	p.t.Helper()
	p.signal("launcher", syscall.SIGTERM)
	m, _ := p.ends()
	require.Equal(p.t, contract.TerminationMessage{Reason: contract.ReasonShutdown, Ran: true}, m)
}

// TestDataOnClaimOutlivesItsPod: data on a PVC outlives the pod, and only one guest at a time has the disk, unless the
// spec marks it as shared.
func TestDataOnClaimOutlivesItsPod(t *testing.T) {
	dir := fileSystem(t)
	first := newPod(t, claimVMI("Filesystem", "32Mi", onClaim(), nil)).gives(dir)
	d := first.boot()
	require.Equal(t, "vdd", d.GetVolumes()[3].GetTarget())
	require.EqualValues(t, 32<<20, d.GetVolumes()[3].GetSizeBytes())
	info, err := os.Stat(filepath.Join(dir, "disk.img"))
	require.NoError(t, err)
	require.EqualValues(t, 32<<20, info.Size())
	require.Less(t, info.Sys().(*syscall.Stat_t).Blocks*512, int64(1<<20), "it is sparse")
	first.shell("echo kept > /dev/vdd; sync; echo wrote-it")
	first.says("wrote-it")

	second := newPod(t, claimVMI("Filesystem", "32Mi", onClaim(), nil)).gives(dir)
	_, err = second.client.StartDomain(second.context(), &rpc.StartDomainRequest{})
	require.ErrorContains(t, err, "lock", "the disk is in use")

	first.shutDown()
	third := newPod(t, claimVMI("Filesystem", "32Mi", onClaim(), nil)).gives(dir)
	third.boot()
	third.shell(`echo "found:$(head -c 4 /dev/vdd)"`)
	third.says("found:kept")
	third.shutDown()

	fourth := newPod(t, claimVMI("Filesystem", "32Mi",
		map[string]any{"ephemeral": map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "data"}}},
		nil)).gives(dir)
	fourth.boot()
	fourth.shell(`echo lost > /dev/vdd; sync; echo "found:$(head -c 4 /dev/vdd)"`)
	fourth.says("found:lost")
	fourth.shutDown()
	content, err := os.ReadFile(filepath.Join(dir, "disk.img"))
	require.NoError(t, err)
	require.Equal(t, "kept\n", string(content[:5]), "what is written to an ephemeral volume goes with the pod")
}

// TestTwoGuestsShareDisk: two guests use the same disk when both specs mark it as shared.
func TestTwoGuestsShareDisk(t *testing.T) {
	suite.TakeTurn(t, 5)
	dir := fileSystem(t)
	object := claimVMI("Filesystem", "32Mi", onClaim(), map[string]any{"shareable": true})
	a, b := newPod(t, object).gives(dir), newPod(t, object).gives(dir)
	a.boot()
	b.boot()
	a.shell("echo from-a | dd of=/dev/vdd bs=1M seek=8; sync; echo wrote-it")
	a.says("wrote-it")
	b.shell(`echo "found:$(dd if=/dev/vdd bs=1M skip=8 count=1 2>/dev/null | head -c 6)"`)
	b.says("found:from-a")
}

// TestBlockVolume: the data of a block volume is on the device itself.
func TestBlockVolume(t *testing.T) {
	suite.TakeTurn(t, 6)
	file := filepath.Join(fileSystem(t), "device")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, 32<<20))
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		says := t.Skipf // a developer's machine may have none; one that verifies has to
		if os.Getenv("CI") != "" || os.Getenv("VIRTFLOW_TURN") != "" {
			says = t.Fatalf
		}
		says("this machine gives no loop device: %v: %s", err, out)
	}
	loop := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", loop).Run() })
	var s unix.Stat_t
	require.NoError(t, unix.Stat(loop, &s))
	p := newPod(t, claimVMI("Block", "32Mi", onClaim(), nil))
	require.NoError(t, unix.Mknod(p.at("devices/data"), unix.S_IFBLK|0o600, int(s.Rdev)))
	require.NoError(t, os.Chown(p.at("devices/data"), qemuUser, qemuUser))
	d := p.boot()
	require.EqualValues(t, 32<<20, d.GetVolumes()[3].GetSizeBytes())
	p.shell("echo kept > /dev/vdd; sync; echo wrote-it")
	p.says("wrote-it")
	p.shutDown()
	content, err := os.ReadFile(loop)
	require.NoError(t, err)
	require.Equal(t, "kept\n", string(content[:5]))
}

// TestFullClaimPausesGuest: the guest pauses when its PVC is full, and resumes by itself once there is space; its
// console shows both. A PVC that is smaller than requested, or is read-only, starts no guest.
func TestFullClaimPausesGuest(t *testing.T) {
	suite.TakeTurn(t, 7)
	owner := fmt.Sprintf(",uid=%d,gid=%d", qemuUser, qemuUser)
	for _, c := range []struct{ requests, mode, refused string }{
		{requests: "1Gi", refused: "not enough space, demanded size 1073741824 B"},
		{requests: "32Mi", mode: ",ro", refused: "user 107 may not create disk.img on it: read-only file system"},
		{requests: "32Mi"},
	} {
		p := newPod(t, claimVMI("Filesystem", c.requests, onClaim(), nil))
		require.NoError(t, os.Mkdir(p.at("claims/data"), 0o755))
		p.eventually("the launcher is there", func() bool { _, found := p.process("launcher"); return found })
		p.mounts("-t", "tmpfs", "-o", "size=40m"+owner+c.mode, "small", "claims/data")
		if c.refused != "" {
			_, err := p.client.StartDomain(p.context(), &rpc.StartDomainRequest{})
			require.Equal(t, codes.InvalidArgument, status.Code(err))
			require.ErrorContains(t, err, c.refused)
			continue
		}
		p.boot()
		p.mounts("-t", "tmpfs", "-o", "remount,size=4m"+owner, "small", "claims/data")
		p.shell("dd if=/dev/urandom of=/dev/vdd bs=1M count=12; echo wrote-it")
		p.pausesUntilThereIsSpace("claims/data", owner)
		p.says("wrote-it")
	}
}

// TestClaimIsNotCopied: both ends of a move open one disk, and never write to it at once. It has grown before: the
// guest sees that at once, and the target's launcher accepts it.
func TestClaimIsNotCopied(t *testing.T) {
	suite.TakeTurn(t, 3)
	dir := fileSystem(t)
	object := strings.Replace(claimVMI("Filesystem", "32Mi", onClaim(), nil),
		`"requests"`, `"filesystemOverhead":"0.055","requests"`, 1)
	from := newPodAt(t, object, "", mountPoint).gives(dir)
	to := newPodAt(t, object, "", mountPoint).gives(dir)
	from.boot()
	from.shell("echo before > /dev/vdd; sync; echo wrote-it")
	from.says("wrote-it")
	const sectors = `echo "sectors:$(cat /sys/block/vdd/size)."` // of 512 bytes; 48 MiB less what a file system takes
	_, err := from.client.Operate(from.context(), &rpc.OperateRequest{Operation: rpc.Operation_OPERATION_RESIZE,
		Claims: []*rpc.ClaimSize{{Volume: "data", Capacity: "48Mi", Requests: "48Mi"}}})
	require.NoError(t, err)
	_, err = io.WriteString(from.serial, sectors+"\n")
	require.NoError(t, err)
	from.says("sectors:92160.")
	before, err := os.Stat(filepath.Join(dir, "disk.img"))
	require.NoError(t, err)
	require.EqualValues(t, 45<<20, before.Size())
	d, err := from.client.DescribeMigration(from.context(), &rpc.DescribeMigrationRequest{})
	require.NoError(t, err)
	require.False(t, d.GetDisks()[3].GetCopied())

	m := newMove(t, from, to)
	m.prepare()
	last := m.wait(m.begin())
	require.NotNil(t, last.GetLeft(), "%v", last)
	m.finish(last.GetLeft())
	to.serial = dialUnix(t, to.at("private/virt-serial0")) // root is still logged in there
	_, err = io.WriteString(to.serial, `echo "found:$(head -c 6 /dev/vdd)"; echo after > /dev/vdd; sync; echo wrote-it`+"\n")
	require.NoError(t, err)
	to.says("found:before")
	to.says("wrote-it")
	_, err = io.WriteString(to.serial, sectors+"\n")
	require.NoError(t, err)
	to.says("sectors:92160.")
	after, err := os.Stat(filepath.Join(dir, "disk.img"))
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	content, err := os.ReadFile(filepath.Join(dir, "disk.img"))
	require.NoError(t, err)
	require.Equal(t, "after\n", string(content[:6]))
}
