package tables

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// failures returns all kinds of failures that users are shown.
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
		"quota", "quota on instances", "pod evicted",
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

var testFolder = regexp.MustCompile("^`([a-z0-9/]+)` ")

// TestFailuresAreTestedAndDocumented: the page on troubleshooting has a row for each failure, with its symptoms and its
// remedy, and names tests that exist.
func TestFailuresAreTestedAndDocumented(t *testing.T) {
	_, section, found := strings.Cut(page(t, "troubleshooting.md"), "\n## Every way it can fail\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what fails ") {
			continue
		}
		require.Len(t, cells, 4, line)
		what := strings.TrimSpace(cells[0])
		rows = append(rows, what)
		for group := range strings.SplitSeq(strings.TrimSpace(cells[3]), "; ") {
			folder := testFolder.FindStringSubmatch(group)
			require.NotNil(t, folder, "%s: %q names no folder", what, group)
			for name := range strings.SplitSeq(group[len(folder[0]):], ", ") {
				require.True(t, isTest(t, folder[1], name), "%s: there is no %s in %s", what, name, folder[1])
			}
		}
	}
	require.Equal(t, failures(), rows)
}
