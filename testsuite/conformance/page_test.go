package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// recorded returns the recorded specs.
func recorded(t *testing.T) []spec {
	t.Helper()
	specs, err := readResults(filepath.Join(root, resultsFile))
	require.NoError(t, err)
	require.Greater(t, len(specs), 1000)
	return specs
}

func TestPagesAreThoseOfOutcomes(t *testing.T) {
	specs := recorded(t)
	text, err := os.ReadFile(filepath.Join(root, pageFile))
	require.NoError(t, err)
	require.Equal(t, page(specs), string(text), "run make generate")
	readme, err := os.ReadFile(filepath.Join(root, readmeFile))
	require.NoError(t, err)
	require.Regexp(t, numbersLine, string(readme))
	require.Equal(t, withNumbers(string(readme), specs), string(readme), "run make generate")
}

// TestReasonsAreNeeded fails on a reason that no spec needs, because the specs that it matches pass or have another
// reason.
func TestReasonsAreNeeded(t *testing.T) {
	needed := map[int]bool{}
	for _, e := range explainAll(recorded(t)) {
		needed[e.index] = needed[e.index] || e.isLeftOut() || e.Outcome != passed
	}
	for i, r := range reasons {
		require.True(t, needed[i], "%s: %s", r.kind.name, r.why)
	}
}

func TestLabel(t *testing.T) {
	r := because(feature, "x", label("SRIOV|USB"))
	for line, want := range map[string]bool{
		"a.go:1 {SRIOV} x": true, "a.go:1 {Serial,USB,sig-compute} x": true, "a.go:1 {USB,sig-compute} x": true,
		"a.go:1 {NOUSB} x": false, "a.go:1 {USB2} x": false, "a.go:1 {sig-compute} {USB} x": false,
	} {
		require.Equal(t, want, r.match.MatchString(line), line)
	}
}

func TestTotals(t *testing.T) {
	n := totals(explainAll([]spec{
		{Name: "passes", Outcome: passed}, {Name: "fails", Outcome: failed}, {Name: "skips itself", Outcome: skipped},
		{Name: "has not run"}, {At: "pool_test.go:1", Name: "is left out", Outcome: passed},
	}))
	require.Equal(t, numbers{all: 5, pass: 1, fail: 1, skip: 1, leftOut: 1, notYet: 1}, n)
	require.Equal(t, "1 of 5 specs pass. That is 50 % of the 2 that ran to their end.", n.sentence())
}

func TestGroups(t *testing.T) {
	for want, labels := range map[string][]string{
		"sig-compute-migrations": {"sig-compute", "sig-compute-migrations"}, "sig-compute": {"sig-compute"}, "": {"Serial"},
	} {
		require.Equal(t, want, spec{Labels: labels}.sig())
	}
}

func TestTitle(t *testing.T) {
	require.Equal(t, "Console [test_id:1588]should return a login",
		spec{Name: "[sig-compute] [rfe_id:127][crit:medium][vendor:cnv-qe@redhat.com]Console [test_id:1588]should return a login"}.
			title())
}
