package guest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseDepends(t *testing.T) {
	require.Equal(t, []string{"libahci", "libata"},
		parseDepends([]byte("license=GPL\x00depends=libahci,libata\x00name=ahci\x00")))
	require.Empty(t, parseDepends([]byte("depends=\x00name=libata\x00")))
}

func TestDiskIsWholeTracksWithSpaceLeft(t *testing.T) {
	for _, size := range []int64{0, 1, 15 << 20} {
		require.Zero(t, diskKiB(size)%63)
		require.GreaterOrEqual(t, diskKiB(size)*1024, size+1536*1024)
	}
}

func TestCloudConfig(t *testing.T) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("busybox, whose awk the guest uses, is not installed")
	}
	cases := []struct{ name, config, want string }{
		{"words", "hostname: h\npassword: 'it''s'\nchpasswd: { expire: False }\nssh_pwauth: True\n",
			"hostname\th\npassword\tit's\n"},
		{"keys", "ssh_authorized_keys:\n  - ssh-ed25519 AAAA me\n", "key\tssh-ed25519 AAAA me\n"},
		{"chpasswd", "chpasswd:\n  list: |\n    root:a\n    user:b\n  expire: False\n",
			"chpasswd\troot:a\nchpasswd\tuser:b\n"},
		{"runcmd", "runcmd:\n  - echo hi # why\n  - [ sh, -c, \"echo 'a, b'\" ]\n",
			"run\techo hi\nrun\t'sh' '-c' 'echo '\\''a, b'\\'''\n"},
		{"unknown", "write_files:\n  - path: /x\n    content: y\n", "unknown\twrite_files\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			file := t.TempDir() + "/user-data"
			require.NoError(t, os.WriteFile(file, []byte("#cloud-config\n"+c.config), 0o600))
			out, err := exec.Command(busybox, "awk", "-f", "rootfs/usr/lib/guest/config.awk", file).CombinedOutput()
			require.NoError(t, err)
			require.Equal(t, c.want, string(out))
		})
	}
}
