package debian

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissing(t *testing.T) {
	installed := "runc installed\nnftables config-files\nlibc6:amd64 installed\n"
	require.Equal(t, []string{"nftables", "conntrack"}, missing(installed, []string{"runc", "nftables", "conntrack"}),
		"a package that was removed but left its configuration is missing")
	require.Empty(t, missing(installed, []string{"runc"}))
}
