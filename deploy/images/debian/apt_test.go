package debian

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseURIs(t *testing.T) {
	packages := parseURIs(`Reading package lists...
'http://mirror.example/debian/pool/main/q/qemu/qemu-utils_7.2_amd64.deb' qemu-utils_1%3a7.2+dfsg-7+deb12u18+b3_amd64.deb 1292564 MD5Sum:48db
'http://mirror.example/debian/pool/main/i/icu/libicu72_72.1-3_amd64.deb' libicu72_72.1-3_amd64.deb 9376124 
`)
	require.Equal(t, "libicu72_72.1-3_amd64.deb\nqemu-utils_1%3a7.2+dfsg-7+deb12u18+b3_amd64.deb\n", List(packages))
	require.Equal(t, "qemu-utils", packages[1].Name())
	require.Equal(t, "1:7.2+dfsg-7+deb12u18+b3", packages[1].Version())
}
