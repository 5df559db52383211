package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunOfPartKeepsOtherOutcomes(t *testing.T) {
	recorded := []spec{
		{At: "a.go:1", Name: "kept", Outcome: passed, Seconds: 10, Commit: "old"},
		{At: "a.go:2", Name: "run again", Outcome: passed, Seconds: 10, Commit: "old"},
		{At: "a.go:3", Name: "gone", Outcome: passed},
	}
	reported := []spec{
		{At: "a.go:7", Name: "kept", Labels: []string{"new"}},
		{At: "a.go:8", Name: "run again", Outcome: failed, Seconds: 20, Commit: "new", Message: "no"},
		{At: "a.go:9", Name: "added"},
	}
	merged := merge(recorded, reported)
	require.Equal(t, []spec{
		{At: "a.go:7", Name: "kept", Labels: []string{"new"}, Outcome: passed, Seconds: 10, Commit: "old"},
		{At: "a.go:8", Name: "run again", Outcome: failed, Seconds: 20, Commit: "new", Message: "no"},
		{At: "a.go:9", Name: "added"},
	}, merged)
	require.Equal(t, merged[1:2], regressions(recorded, reported))
	require.Empty(t, regressions(merged, reported), "it failed before")
}

func TestRecordsOneSpecPerLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	none, err := readResults(path)
	require.NoError(t, err)
	require.Empty(t, none)
	specs := []spec{{At: "a.go:1", Name: "x", Labels: []string{"l"}, Outcome: passed, Seconds: 3, Commit: "c"},
		{At: "a.go:2", Name: "y", Labels: []string{}}}
	require.NoError(t, writeResults(path, specs))
	read, err := readResults(path)
	require.NoError(t, err)
	require.Equal(t, specs, read)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 2+len(specs), strings.Count(string(text), "\n"))
}

func TestWithout(t *testing.T) {
	a, b := spec{Name: "a"}, spec{Name: "b"}
	require.Equal(t, 1, without([]spec{a, b}, []spec{b}))
	require.Zero(t, without([]spec{a}, []spec{b, a}))
}
