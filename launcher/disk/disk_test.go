package disk_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/hardware"
	"github.com/virtflow/virtflow/launcher/disk"
)

// program answers as qemu-img does, from a file beside it.
type program struct{ path string }

func (p program) Run(cmd *exec.Cmd, started func(int)) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	if started != nil {
		started(cmd.Process.Pid)
	}
	return cmd.Wait()
}

func fakeQemuImg(t *testing.T, info string) program {
	t.Helper()
	dir := t.TempDir()
	p := program{path: filepath.Join(dir, "qemu-img")}
	script := "#!/bin/sh\necho \"$@\" >> " + dir + "/calls\n[ \"$1\" = info ] && { echo '" + info +
		"'; exit; }\nfor last; do :; done\n" +
		"case \"$last\" in */*) : > \"$last\";; *) eval f=\\${$(($#-1))}; : > \"$f\";; esac\n"
	require.NoError(t, os.WriteFile(p.path, []byte(script), 0o700))
	return p
}

func vmi(t *testing.T, spec string) *v1.VirtualMachineInstance {
	t.Helper()
	v := &v1.VirtualMachineInstance{}
	v.Namespace, v.Name = "default", "vm1"
	require.NoError(t, json.Unmarshal([]byte(spec), &v.Spec))
	return v
}

func directories(t *testing.T) disk.Directories {
	t.Helper()
	dir := t.TempDir()
	at := disk.Directories{Images: filepath.Join(dir, "images"), CloudInit: filepath.Join(dir, "cloud-init"),
		Disks: filepath.Join(dir, "disks"),
		Files: filepath.Join(dir, "files"), AccessCredentials: filepath.Join(dir, "access-credentials"),
		UserData: filepath.Join(dir, "user-data"), NetworkData: filepath.Join(dir, "network-data")}
	for _, d := range []string{at.Images, at.CloudInit, at.Disks} {
		require.NoError(t, os.Mkdir(d, 0o700))
	}
	return at
}

func write(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte("data"), 0o600))
}

// TestLimitsMemoryOfQemuImg: the program runs with the memory limit of the configuration.
func TestLimitsMemoryOfQemuImg(t *testing.T) {
	img := program{path: filepath.Join(t.TempDir(), "qemu-img")}
	const script = "#!/bin/sh\nuntil [ \"$(ulimit -v)\" != unlimited ]; do sleep 0.01; done\n" +
		"echo \"{\\\"format\\\":\\\"$(ulimit -v) KiB\\\"}\"\n"
	require.NoError(t, os.WriteFile(img.path, []byte(script), 0o700))
	at, v := directories(t), vmi(t, containerDisk)
	write(t, filepath.Join(at.Images, "root", "disk", "disk.img"))
	plan, err := disk.Plan(v, at)
	require.NoError(t, err)
	limits := hardware.Default().Disks
	limits.ProbeMemory = 1 << 30
	_, err = disk.NewPreparer(img.path, img, limits).Prepare(t.Context(), v, plan)
	require.ErrorContains(t, err, "unsupported image format: 1048576 KiB")
}

const containerDisk = `{"domain":{"devices":{"disks":[{"name":"root"}]}},
	"volumes":[{"name":"root","containerDisk":{"image":"x"}},{"name":"unused","emptyDisk":{"capacity":"0"}}]}`

func prepare(t *testing.T, at disk.Directories, spec, info string) (path string, err error) {
	t.Helper()
	v := vmi(t, spec)
	plan, err := disk.Plan(v, at)
	if err != nil {
		return "", err
	}
	img := fakeQemuImg(t, info)
	made, err := disk.NewPreparer(img.path, img, hardware.Default().Disks).Prepare(context.Background(), v, plan)
	if err != nil {
		return "", err
	}
	return made[plan[0].Name].Path, nil
}

func TestContainerDiskMistakes(t *testing.T) {
	const good = `{"format":"raw","virtual-size":1}`
	for name, c := range map[string]struct {
		files []string
		spec  string
		info  string
		want  string
	}{
		"no folder": {want: "no file found in folder /disk, no disk present"},
		"two files": {files: []string{"disk/a", "disk/b"},
			want: "more than one file found in folder /disk, only one disk is allowed"},
		"unknown format": {files: []string{"disk/a"}, info: `{"format":"vmdk"}`,
			want: "unsupported image format: vmdk"},
		"a backing file": {files: []string{"disk/a"}, info: `{"format":"qcow2","backing-filename":"/etc/passwd"}`,
			want: "expected no backing file, but found /etc/passwd"},
		"a data file": {files: []string{"disk/a"},
			info: `{"format":"qcow2","format-specific":{"type":"qcow2","data":{"data-file":"/etc/passwd"}}}`,
			want: "expected no data file, but found /etc/passwd"},
		"not the path": {files: []string{"disk/a"},
			spec: `{"domain":{"devices":{"disks":[{"name":"root"}]}},
				"volumes":[{"name":"root","containerDisk":{"image":"x","path":"/b"}}]}`,
			want: "no file found at path /b"},
		"path leaves it": {files: []string{"disk/a"},
			spec: `{"domain":{"devices":{"disks":[{"name":"root"}]}},
				"volumes":[{"name":"root","containerDisk":{"image":"x","path":"/../../../etc/passwd"}}]}`,
			want: "no file found at path /etc/passwd"},
		"path is a folder": {files: []string{"disk/a"},
			spec: `{"domain":{"devices":{"disks":[{"name":"root"}]}},
				"volumes":[{"name":"root","containerDisk":{"image":"x","path":"/disk"}}]}`,
			want: "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			at := directories(t)
			require.NoError(t, os.Mkdir(filepath.Join(at.Images, "root"), 0o700))
			for _, f := range c.files {
				write(t, filepath.Join(at.Images, "root", f))
			}
			if c.spec == "" {
				c.spec = containerDisk
			}
			if c.info == "" {
				c.info = good
			}
			_, err := prepare(t, at, c.spec, c.info)
			var wrong *disk.Error
			require.ErrorAs(t, err, &wrong)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestRefusesLinkOutOfContainerDisk(t *testing.T) {
	at := directories(t)
	require.NoError(t, os.MkdirAll(filepath.Join(at.Images, "root", "disk"), 0o700))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(at.Images, "root", "disk", "disk.img")))
	_, err := prepare(t, at, containerDisk, `{"format":"raw"}`)
	var wrong *disk.Error
	require.ErrorAs(t, err, &wrong)
}

func TestKeepsExistingFiles(t *testing.T) {
	at := directories(t)
	write(t, filepath.Join(at.Images, "root", "disk", "disk.img"))
	path, err := prepare(t, at, containerDisk, `{"format":"raw","virtual-size":7}`)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("written by the guest"), 0o600))
	again, err := prepare(t, at, containerDisk, `{"format":"raw","virtual-size":7}`)
	require.NoError(t, err)
	require.Equal(t, path, again)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "written by the guest", string(b))
}

func TestCloudInitDataOfUsersSecret(t *testing.T) {
	for _, keys := range [][]string{{"userdata", "networkdata"}, {"userData", "networkData"}, {"userData"},
		{"networkData"}} {
		at := directories(t)
		spec := ""
		for _, key := range keys {
			dir, ref := at.UserData, `"secretRef":{"name":"u"}`
			if strings.HasPrefix(key, "network") {
				dir, ref = at.NetworkData, `"networkDataSecretRef":{"name":"n"}`
			}
			spec += "," + ref
			file := filepath.Join(dir, "c", key)
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			require.NoError(t, os.WriteFile(file, []byte("content of "+key), 0o600))
		}
		path, err := prepare(t, at,
			`{"domain":{"devices":{"disks":[{"name":"c"}]}},"volumes":[{"name":"c","cloudInitNoCloud":{`+spec[1:]+
				`}}]}`, "")
		require.NoError(t, err, keys)
		iso, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, key := range keys {
			require.Contains(t, string(iso), "content of "+key)
		}
	}
}

// A Secret with user data may have a key named networkdata as well: it is ignored, because the VMI does not name the
// Secret for that.
func TestIgnoresNetworkDataInUserDataSecret(t *testing.T) {
	at := directories(t)
	for path, content := range map[string]string{
		filepath.Join(at.UserData, "c", "userdata"): "user's", filepath.Join(at.UserData, "c", "networkdata"): "wrong",
		filepath.Join(at.CloudInit, "c", "networkdata"): "inline",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("content: "+content), 0o600))
	}
	path, err := prepare(t, at,
		`{"domain":{"devices":{"disks":[{"name":"c"}]}},
			"volumes":[{"name":"c","cloudInitNoCloud":{"secretRef":{"name":"u"},"networkData":"inline"}}]}`, "")
	require.NoError(t, err)
	iso, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(iso), "content: user's")
	require.Contains(t, string(iso), "content: inline")
	require.NotContains(t, string(iso), "content: wrong")
}

func TestOtherMistakes(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{`{"domain":{"devices":{"disks":[{"name":"e"}]}},"volumes":[{"name":"e","emptyDisk":{"capacity":"1000"}}]}`,
			"the size for volume e is too low"},
		{`{"domain":{"devices":{"disks":[{"name":"c"}]}},"volumes":[{"name":"c","cloudInitNoCloud":{}}]}`,
			"userDataBase64, userData, networkDataBase64 or networkData is required for a cloud-init data source"},
		{`{"domain":{"devices":{"disks":[{"name":"p"}]}},
			"volumes":[{"name":"p","hostDisk":{"path":"/x","type":"Disk"}}]}`, "not supported yet"},
		{`{"domain":{"devices":{"disks":[{"name":"a"},{"name":"b"}]}},
			"volumes":[{"name":"a","cloudInitNoCloud":{}},{"name":"b","cloudInitNoCloud":{}}]}`,
			"only one cloud-init volume"},
	} {
		_, err := prepare(t, directories(t), c.spec, "")
		var wrong *disk.Error
		require.ErrorAs(t, err, &wrong, c.spec)
		require.ErrorContains(t, err, c.want)
	}
}
