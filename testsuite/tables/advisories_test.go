package tables

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheAdvisoriesTestsExist: the page on security names, for each advisory, tests that are there.
func TestTheAdvisoriesTestsExist(t *testing.T) {
	folder, name := regexp.MustCompile("`([a-z0-9/]+)`"), regexp.MustCompile(`Test[A-Za-z0-9]+`)
	named := 0
	for line := range strings.Lines(page(t, "security.md")) {
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
			for _, n := range name.FindAllString(group, -1) {
				require.True(t, isTest(t, dir[1], n), "%s: there is no %s in %s", cells[0], n, dir[1])
				named++
			}
		}
	}
	require.Greater(t, named, 20)
}
