package words

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var root = filepath.Join("..", "..")

// files returns the contents of the files that people wrote, by name, of those with one of the extensions. This
// package is left out: it has the words that it looks for.
func files(t *testing.T, extensions ...string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && slices.Contains(notOurs, name):
			return filepath.SkipDir
		case slices.Contains(notOurs, name):
			return nil
		case !d.Type().IsRegular() || !slices.Contains(extensions, filepath.Ext(name)) ||
			strings.HasSuffix(name, ".pb.go") || name == "LICENSE":
			return nil
		}
		out[name], err = os.ReadFile(path)
		return err
	}))
	require.Greater(t, len(out), 10, "the project's files are not where they are looked for")
	return out
}

// requireNone fails with each finding on a line of its own.
func requireNone(t *testing.T, found []string) {
	t.Helper()
	slices.Sort(found)
	require.Empty(t, found, "%d findings:\n%s", len(found), strings.Join(found, "\n"))
}

// notOurs are files, and folders of files, that are generated or recorded, and this folder.
var notOurs = []string{".git", ".build", "deploy/crds", "docs/conformance.md", "testsuite/replay/histories",
	"testsuite/words"}
