package debian

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/deploy/images/cache"
)

// mirror is a repository that the real apt reads by HTTP, with a configuration of its own that touches nothing of the
// machine.
type mirror struct {
	t         *testing.T
	dir       string // what is served
	lists     string
	refreshes int
	published int
	log       bytes.Buffer
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	root := t.TempDir()
	m := &mirror{t: t, dir: filepath.Join(root, "mirror"), lists: filepath.Join(root, "lists")}
	for _, dir := range []string{m.dir, filepath.Join(m.lists, "partial"), filepath.Join(root, "archives", "partial"),
		filepath.Join(root, "etc", "apt.conf.d"), filepath.Join(root, "etc", "preferences.d")} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	files := http.FileServer(http.Dir(m.dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/Packages") {
			m.refreshes++
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	for name, text := range map[string]string{
		"status":           "",
		"etc/sources.list": "deb [trusted=yes] " + server.URL + " ./\n",
		"apt.conf": fmt.Sprintf(`Dir::State %[1]q; Dir::State::lists %[2]q; Dir::State::status "%[1]s/status"; Dir::Cache %[1]q; Dir::Cache::archives "%[1]s/archives";
Dir::Etc "%[1]s/etc"; Dir::Etc::sourceparts "-"; APT::Sandbox::User "root"; Acquire::http::Proxy "DIRECT"; Acquire::Languages "none"; Acquire::Retries "0";
Debug::NoLocking "true"; APT::Update::Post-Invoke {}; APT::Update::Post-Invoke-Success {}; #clear APT::Update;
`, root, m.lists),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	t.Setenv("APT_CONFIG", filepath.Join(root, "apt.conf"))
	return m
}

// publish makes the mirror offer one version of the package virtflow-test, and no other any more.
func (m *mirror) publish(version string) {
	m.t.Helper()
	require.NoError(m.t, os.MkdirAll(m.dir, 0o755))
	old, err := filepath.Glob(filepath.Join(m.dir, "*"))
	require.NoError(m.t, err)
	for _, file := range old {
		require.NoError(m.t, os.Remove(file))
	}
	control := "Package: virtflow-test\nVersion: " + version +
		"\nArchitecture: all\nMaintainer: maintainer <maintainer@example.com>\nDescription: a test\n"
	tree := m.t.TempDir()
	require.NoError(m.t, os.MkdirAll(filepath.Join(tree, "DEBIAN"), 0o755))
	require.NoError(m.t, os.WriteFile(filepath.Join(tree, "DEBIAN", "control"), []byte(control), 0o644))
	require.NoError(m.t, os.WriteFile(filepath.Join(tree, "version"), []byte(version), 0o644))
	file := "virtflow-test_" + version + "_all.deb"
	out, err := exec.Command("dpkg-deb", "--root-owner-group", "-b", tree, filepath.Join(m.dir, file)).CombinedOutput()
	require.NoError(m.t, err, string(out))
	data, err := os.ReadFile(filepath.Join(m.dir, file))
	require.NoError(m.t, err)
	index := fmt.Sprintf("%sFilename: ./%s\nSize: %d\nSHA256: %x\n\n", control, file, len(data), sha256.Sum256(data))
	list := filepath.Join(m.dir, "Packages")
	require.NoError(m.t, os.WriteFile(list, []byte(index), 0o644))
	// HTTP times have a resolution of seconds.
	m.published++
	when := time.Now().Add(time.Duration(m.published-60) * time.Minute)
	require.NoError(m.t, os.Chtimes(list, when, when))
}

// age makes the package lists as old as given.
func (m *mirror) age(age time.Duration) {
	m.t.Helper()
	then := time.Now().Add(-age)
	require.NoError(m.t, os.Chtimes(m.lists, then, then))
}

func (m *mirror) archive() *Archive {
	return NewArchive(cache.Dir(m.t.TempDir()), zerolog.New(&m.log))
}

// build does what recipes do: resolve, fetch, extract. It returns the version that it got.
func (m *mirror) build(a *Archive, between func()) string {
	m.t.Helper()
	var version string
	err := Again(func() error {
		packages, err := a.Resolve(context.Background(), "virtflow-test")
		if err != nil {
			return err
		}
		between()
		if err := a.Fetch(context.Background(), packages); err != nil {
			return err
		}
		dir := m.t.TempDir()
		if err := a.Extract(context.Background(), packages, dir); err != nil {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, "version"))
		version = string(data)
		return err
	})
	require.NoError(m.t, err, m.log.String())
	return version
}

func TestFetchesMissingLists(t *testing.T) {
	m := newMirror(t)
	m.publish("1.0")
	require.Equal(t, "1.0", m.build(m.archive(), func() {}))
	require.Equal(t, 1, m.refreshes)
}

// TestRefreshesOldListsBeforeResolving: the mirror no longer has the versions in them.
func TestRefreshesOldListsBeforeResolving(t *testing.T) {
	m := newMirror(t)
	m.publish("1.0")
	m.build(m.archive(), func() {})
	m.publish("2.0")
	m.age(21 * 24 * time.Hour)
	require.Equal(t, "2.0", m.build(m.archive(), func() {}))
	require.Equal(t, 2, m.refreshes)
	require.NotContains(t, m.log.String(), "first try", "nothing had to fail before the lists were refreshed")
}

func TestUsesFreshLists(t *testing.T) {
	m := newMirror(t)
	m.publish("1.0")
	m.build(m.archive(), func() {})
	m.age(maxAge - time.Hour)
	m.build(m.archive(), func() {})
	require.Equal(t, 1, m.refreshes)
}

// TestUnchangedListsCountAsRefreshed: lists that have not changed count as refreshed; otherwise each build would query
// the mirror again.
func TestUnchangedListsCountAsRefreshed(t *testing.T) {
	m := newMirror(t)
	m.publish("1.0")
	m.build(m.archive(), func() {})
	m.age(2 * maxAge)
	m.build(m.archive(), func() {})
	m.build(m.archive(), func() {})
	require.Equal(t, 2, m.refreshes)
}

// TestResolvesAgainAfterMirrorChange: after a refresh alone, the fetch would still request the old version.
func TestResolvesAgainAfterMirrorChange(t *testing.T) {
	m := newMirror(t)
	m.publish("1.0")
	changed := false
	require.Equal(t, "2.0", m.build(m.archive(), func() {
		if !changed {
			changed = true
			m.publish("2.0")
		}
	}))
	require.Equal(t, 2, m.refreshes)
}

// TestFailsIfMirrorKeepsChanging: the build fails instead of trying endlessly.
func TestFailsIfMirrorKeepsChanging(t *testing.T) {
	m := newMirror(t)
	m.publish("1.0")
	a, tries := m.archive(), 0
	err := Again(func() error {
		packages, err := a.Resolve(context.Background(), "virtflow-test")
		require.NoError(t, err)
		tries++
		m.publish(fmt.Sprintf("%d.0", tries+1))
		return a.Fetch(context.Background(), packages)
	})
	require.ErrorIs(t, err, ErrOutdated)
	require.Equal(t, 2, tries)
}

// TestUsesOldListsWithoutMirror: without the mirror, old lists are used as long as the cache has the packages in them.
func TestUsesOldListsWithoutMirror(t *testing.T) {
	m := newMirror(t)
	m.publish("1.0")
	a := m.archive()
	m.build(a, func() {})
	m.age(2 * maxAge)
	require.NoError(t, os.Remove(filepath.Join(m.dir, "Packages")))
	offline := &Archive{cache: a.cache, lists: NewLists(zerolog.New(&m.log)), log: zerolog.New(&m.log)}
	require.Equal(t, "1.0", m.build(offline, func() {}))
	require.Contains(t, m.log.String(), "failed to update all of")
}
