package debian

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/deploy/images/cache"
)

func TestSourcesOfAnotherRelease(t *testing.T) {
	const updates = `'http://mirror.example/debian/dists/bookworm/InRelease' mirror.example_debian_dists_bookworm_InRelease 0 
'http://mirror.example/debian/dists/bookworm-updates/InRelease' mirror.example_debian_dists_bookworm-updates_InRelease 0 
'http://mirror.example/debian/dists/bookworm-backports/InRelease' mirror.example_debian_dists_bookworm-backports_InRelease 0 
'http://security.example/dists/bookworm-security/InRelease' security.example_dists_bookworm-security_InRelease 0 
'https://other.example/apt/dists/tool-bookworm/InRelease' other.example_apt_dists_tool-bookworm_InRelease 0 
'http://mirror.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' mirror.example_debian_dists_bookworm_main_binary-amd64_Packages 0 
`
	sources, err := sourcesOf(updates, "bookworm", "trixie")
	require.NoError(t, err)
	const signed = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
	require.Equal(t, signed+"http://mirror.example/debian trixie main\n"+
		signed+"http://mirror.example/debian trixie-updates main\n"+
		signed+"http://security.example trixie-security main\n", sources)

	_, err = sourcesOf(updates, "noble", "trixie")
	require.ErrorContains(t, err, "noble")
}

// TestAnotherReleaseBesideMachines: an archive of another release has lists of its own: neither archive sees the
// other's packages.
func TestAnotherReleaseBesideMachines(t *testing.T) {
	m := newMirror(t)
	m.publish("1.0")
	next := &mirror{t: t, dir: filepath.Join(t.TempDir(), "next")}
	server := httptest.NewServer(http.FileServer(http.Dir(next.dir)))
	t.Cleanup(server.Close)
	next.publish("2.0")

	dir := cache.Dir(t.TempDir())
	archive := NewRelease(dir, "next", zerolog.New(&m.log))
	archive.lists.release.sources = func(context.Context) (string, error) {
		return "deb [trusted=yes] " + server.URL + " ./\n", nil
	}
	require.Equal(t, "2.0", m.build(archive, func() {}), m.log.String())
	require.Equal(t, "1.0", m.build(m.archive(), func() {}), m.log.String())
	next.publish("3.0")
	archive.lists.Refresh(t.Context())
	require.Equal(t, "3.0", m.build(archive, func() {}), m.log.String())
	require.ErrorContains(t, archive.EnsureInstalled(t.Context(), "virtflow-test"), "next")
}
