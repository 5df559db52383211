package tables

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheLayoutIsToldOf: the page for developers has each folder of those that hold one subject each.
func TestTheLayoutIsToldOf(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "development.md"))
	require.NoError(t, err)
	layout := regexp.MustCompile("(?s)## Layout\n```\n(.*?)```").FindSubmatch(page)
	require.NotNil(t, layout, "there is no layout on the page")
	// Each line that begins with a folder begins its block.
	blocks := map[string]string{}
	top := ""
	for _, line := range regexp.MustCompile(`(?m)^.*$`).FindAllString(string(layout[1]), -1) {
		if m := regexp.MustCompile(`^([a-z]+)/`).FindStringSubmatch(line); m != nil {
			top = m[1]
		}
		blocks[top] += line + "\n"
	}
	for _, parent := range []string{"activities", "api", "internal", "testsuite", "workers", "workflows"} {
		require.NotEmpty(t, blocks[parent], "the layout does not tell of %s/", parent)
		entries, err := os.ReadDir(filepath.Join(root, parent))
		require.NoError(t, err)
		for _, e := range entries {
			if e.IsDir() {
				require.Regexp(t, `[ (]`+e.Name()+`/`, blocks[parent], "the layout does not tell of %s/%s", parent, e.Name())
			}
		}
	}
}
