package tables

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	layoutSection = regexp.MustCompile("(?s)## Layout\n```\n(.*?)```")
	layoutFolder  = regexp.MustCompile(`^([a-z]+)/`)
)

// TestLayoutIsDocumented: the page for developers has each folder of the packages with one subject.
func TestLayoutIsDocumented(t *testing.T) {
	layout := layoutSection.FindStringSubmatch(page(t, "development.md"))
	require.NotNil(t, layout, "there is no layout on the page")
	// A line that begins with a folder begins a block.
	blocks := map[string]string{}
	top := ""
	for line := range strings.Lines(layout[1]) {
		if m := layoutFolder.FindStringSubmatch(line); m != nil {
			top = m[1]
		}
		blocks[top] += line
	}
	for _, parent := range []string{"activities", "api", "internal", "testsuite", "workers", "workflows"} {
		require.NotEmpty(t, blocks[parent], "the layout has no %s/", parent)
		entries, err := os.ReadDir(filepath.Join(root, parent))
		require.NoError(t, err)
		for _, e := range entries {
			if e.IsDir() {
				require.Regexp(t, `[ (]`+e.Name()+`/`, blocks[parent], "the layout has no %s/%s", parent, e.Name())
			}
		}
	}
}
