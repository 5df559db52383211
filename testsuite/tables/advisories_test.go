package tables

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSecurityTestsExist: for each threat and each advisory, the page on security names tests that exist.
func TestSecurityTestsExist(t *testing.T) {
	folder, name := regexp.MustCompile("`([a-z0-9/]+)`"), regexp.MustCompile(`Test[A-Za-z0-9]+`)
	named, header := 0, ""
	for line := range strings.Lines(page(t, "security.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") || !strings.HasPrefix(header, "|") {
			header = line
		}
		if line == header || strings.HasPrefix(line, "|--") || !strings.HasSuffix(header, "| tests |\n") {
			continue
		}
		for group := range strings.SplitSeq(cells[len(cells)-1], ";") {
			dir := folder.FindStringSubmatch(group)
			if dir == nil {
				require.Contains(t, group, "–", line)
				continue
			}
			for _, n := range name.FindAllString(group, -1) {
				require.True(t, isTest(t, dir[1], n), "%s: there is no %s in %s", cells[0], n, dir[1])
				named++
			}
		}
	}
	require.Greater(t, named, 60)
}
