package pki

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnsureReissuesChangedRequest(t *testing.T) {
	dir := t.TempDir()
	ca, err := OpenAuthority(dir, "test")
	require.NoError(t, err)
	request := Request{Name: "server", CommonName: "server", Names: []string{"a"}}
	issue := func() string {
		require.NoError(t, ca.Ensure(request))
		data, err := os.ReadFile(filepath.Join(dir, "server.crt"))
		require.NoError(t, err)
		return string(data)
	}
	first := issue()
	require.Equal(t, first, issue())
	request.Names = []string{"a", "b"}
	second := issue()
	require.NotEqual(t, first, second)

	// Another authority in the same folder: certificates of the old one are worthless.
	require.NoError(t, os.Remove(filepath.Join(dir, "ca.key")))
	ca, err = OpenAuthority(dir, "test")
	require.NoError(t, err)
	require.NotEqual(t, second, issue())

	request.IPs = []string{"not an address"}
	require.ErrorContains(t, ca.Ensure(request), "not an address")
}

func TestOpenAuthorityRefusesDamagedOne(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenAuthority(dir, "test")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("nonsense"), 0o644))
	_, err = OpenAuthority(dir, "test")
	require.ErrorContains(t, err, dir)
}
