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

// failures are all ways of failing that users are told of.
func failures() []string {
	return []string{
		"image absent",
		"image without a disk",
		"corrupt disk",
		"PVC absent",
		"PVC unbound",
		"PVC being deleted",
		"PVC read-only or full",
		"DataVolume failed",
		"Secret absent",
		"unschedulable",
		"quota",
		"node without what is asked for",
		"libvirt refusing the domain",
		"QEMU crash",
		"guest panic",
		"out of memory in the pod",
		"launcher crash",
		"libvirt crash or hang",
		"node worker gone",
		"kubelet stopped",
		"disk full",
		"claim that has grown, not seen by the guest",
		"virtiofsd ended",
		"tap failing",
		"guest ignoring ACPI",
		"launcher answering nonsense or nothing",
		"ten minutes without Temporal, API server, node worker or control worker, or all of them",
		"node that reboots",
	}
}

var (
	testNames  = regexp.MustCompile(`^Test[A-Za-z0-9]+$`)
	testFolder = regexp.MustCompile("^`([a-z0-9/]+)` ")
)

// TestEveryWayToFailIsTestedAndTold: the page on troubleshooting has a row for each, which says what is seen and what
// to do, and names tests that are there.
func TestEveryWayToFailIsTestedAndTold(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Every way it can fail\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var told []string
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what fails ") {
			continue
		}
		require.Len(t, cells, 4, line)
		what := strings.TrimSpace(cells[0])
		told = append(told, what)
		for group := range strings.SplitSeq(strings.TrimSpace(cells[3]), "; ") {
			folder := testFolder.FindStringSubmatch(group)
			require.NotNil(t, folder, "%s: %q names no folder", what, group)
			for name := range strings.SplitSeq(group[len(folder[0]):], ", ") {
				require.True(t, isTest(t, root, folder[1], name), "%s: there is no %s in %s", what, name, folder[1])
			}
		}
	}
	require.Equal(t, failures(), told)
}

// isTest says that a folder has a test of that name; in testsuite/world it may be a story.
func isTest(t *testing.T, root, folder, name string) bool {
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
