package guest

import (
	"os"
	"os/exec"
	"path/filepath"
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

// awk returns what busybox's awk, which the guest uses, makes of a file by a program of the guest.
func awk(t *testing.T, program, input string) string {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("busybox, whose awk the guest uses, is not installed")
	}
	file := filepath.Join(t.TempDir(), "input")
	require.NoError(t, os.WriteFile(file, []byte(input), 0o600))
	out, err := exec.Command(busybox, "awk", "-f", "rootfs/usr/lib/guest/"+program, file).CombinedOutput()
	require.NoError(t, err)
	return string(out)
}

func TestCloudConfig(t *testing.T) {
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
			require.Equal(t, c.want, awk(t, "config.awk", "#cloud-config\n"+c.config))
		})
	}
}

func TestNetworkConfig(t *testing.T) {
	const head = "version: 2\nethernets:\n"
	cases := []struct{ name, config, want string }{
		{"DHCP", head + "  eth0:\n    dhcp4: true\n    dhcp6: false\n", "dhcp4\teth0\t \n"},
		{"addresses of two interfaces", head + "  eth0:\n    dhcp4: true\n  eth1:\n    addresses:\n" +
			"    - 10.1.1.1/24\n    - fd10::2/120\n    gateway4: 10.1.1.254\n",
			"dhcp4\teth0\t \naddress\teth1\t10.1.1.1/24\naddress\teth1\tfd10::2/120\n" +
				"route\teth1\tdefault 10.1.1.254\n"},
		{"indented items", head + "  eth1:\n    addresses:\n      - 10.1.1.1/24\n", "address\teth1\t10.1.1.1/24\n"},
		{"name by MAC", head + "  eth1:\n    addresses: [ ]\n    match:\n      macaddress: 02:00:00:AA:bb:cc\n" +
			"    set-name: eth1\n", "rename\teth1\t02:00:00:aa:bb:cc\n"},
		{"routes", head + "  eth0:\n    routes:\n    - to: ::/0\n      via: fd10:0:2::1\n    - to: 10.2.0.0/16\n" +
			"      via: 10.1.1.254\n", "route\teth0\tdefault fd10:0:2::1\nroute\teth0\t10.2.0.0/16 10.1.1.254\n"},
		{"name servers, without search domains", head + "  eth0:\n    nameservers:\n      addresses:\n" +
			"      - 10.96.0.10\n      search:\n      - svc.cluster.local\n", "nameserver\teth0\t10.96.0.10\n"},
		{"not netplan", "#Test networkData", ""},
		{"OpenStack's", `{"config":"test networkData"}`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, awk(t, "network.awk", c.config)) })
	}
}
