package tables

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/world"
)

const root = "../.."

// page reads a page of docs/.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", name))
	require.NoError(t, err)
	return string(text)
}

var testNames = regexp.MustCompile(`^Test[A-Za-z0-9]+$`)

// isTest reports whether a folder has a test of that name; in testsuite/world it may be a story.
func isTest(t *testing.T, folder, name string) bool {
	t.Helper()
	if !testNames.MatchString(name) {
		return folder == "testsuite/world" && slices.ContainsFunc(append(world.Scenarios(), world.Failures()...),
			func(s world.Scenario) bool { return s.Name == name })
	}
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	require.NoError(t, err)
	return slices.ContainsFunc(files, func(f string) bool {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		return strings.Contains(string(text), "\nfunc "+name+"(")
	})
}
