package tables

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheAdvisoriesTestsExist: the page on security names, for each advisory, tests that are there.
func TestTheAdvisoriesTestsExist(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	require.NoError(t, err)
	folder, name := regexp.MustCompile("`([a-z0-9/]+)`"), regexp.MustCompile(`Test[A-Za-z0-9]+`)
	named := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		if !strings.Contains(line, "CVE-") || len(cells) != 3 {
			continue
		}
		for group := range strings.SplitSeq(cells[2], ";") {
			dir := folder.FindStringSubmatch(group)
			if dir == nil {
				require.Contains(t, group, "–", line)
				continue
			}
			var text strings.Builder
			files, err := filepath.Glob(filepath.Join(root, dir[1], "*_test.go"))
			require.NoError(t, err)
			for _, f := range files {
				b, err := os.ReadFile(f)
				require.NoError(t, err)
				text.Write(b)
			}
			for _, n := range name.FindAllString(group, -1) {
				require.Contains(t, text.String(), "func "+n+"(", "%s: there is no %s in %s", cells[0], n, dir[1])
				named++
			}
		}
	}
	require.Greater(t, named, 20)
}
