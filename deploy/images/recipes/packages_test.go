package recipes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/deploy/images/debian"
)

func TestOmitsPackagesWithoutFiles(t *testing.T) {
	qemu, libc, perl := debian.Package{File: "qemu_1_amd64.deb"}, debian.Package{File: "libc6_2_amd64.deb"},
		debian.Package{File: "perl_3_amd64.deb"}
	all := []debian.Package{qemu, libc, perl}
	require.Equal(t, []debian.Package{qemu, libc}, packagesWith(all, map[string]debian.Package{
		"/usr/bin/qemu": qemu, "/lib/x86_64-linux-gnu/libc.so.6": libc, "/usr/bin/perl": perl,
	}, []string{"usr/bin", "usr/bin/qemu", "usr/lib/x86_64-linux-gnu/libc.so.6", "etc/passwd"}))
}
