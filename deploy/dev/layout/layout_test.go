package layout

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFromEnvironment(t *testing.T) {
	t.Setenv("VIRTFLOW_STATE", "/var/lib/a")
	t.Setenv("VIRTFLOW_CACHE", "/var/cache/b")
	l, err := FromEnvironment()
	require.NoError(t, err)
	require.Equal(t, "/var/lib/a/pki/temporal/ca.crt", l.PKI("temporal", "ca.crt"))
	require.Equal(t, "/var/cache/b", l.Cache)
	require.FileExists(t, l.Repo+"/go.mod")

	for name, state := range map[string]string{
		"relative": "state", "in /run": "/run/state", "too long for sockets": "/" + strings.Repeat("x", maxState),
	} {
		t.Setenv("VIRTFLOW_STATE", state)
		_, err := FromEnvironment()
		require.ErrorContains(t, err, "VIRTFLOW_STATE", name)
	}
}

// A Unix socket's path has at most 107 bytes.
func TestSocketPathsFit(t *testing.T) {
	l := Layout{State: "/" + strings.Repeat("x", maxState-1)}
	require.NoError(t, Layout{State: l.State, Cache: "/c"}.validate())
	for _, n := range Nodes() {
		require.LessOrEqual(t, len(l.ContainerdSocket(n)), 107)
		require.LessOrEqual(t, len(l.Control(n.Name)), 107)
		require.LessOrEqual(t, len(n.Link()), 15, "a network interface's name")
	}
	require.LessOrEqual(t, len(l.Control("supervisor")), 107)
}
