package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reported has a spec in each state, and the suite's preparation.
const reported = `[{
	"SuiteConfig": {"DryRun": false},
	"SpecReports": [
		{"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
		{"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-compute]VM", "started"], "LeafNodeText": "runs",
			"ContainerHierarchyLabels": [["sig-compute"], ["conformance"]], "LeafNodeLabels": ["Serial", "sig-compute"],
			"LeafNodeLocation": {"FileName": "kubevirt.io/kubevirt@v1.9.0/tests/compute/vm.go", "LineNumber": 12},
			"State": "passed", "RunTime": 27600000000},
		{"LeafNodeType": "It", "LeafNodeText": "fails", "State": "failed", "RunTime": 1000000000,
			"LeafNodeLocation": {"FileName": "/tests/a.go", "LineNumber": 100},
			"Failure": {"Message": "Expected\n    <bool>: false\nto be true"}},
		{"LeafNodeType": "It", "LeafNodeText": "panics", "State": "panicked",
			"LeafNodeLocation": {"FileName": "/tests/a.go", "LineNumber": 20}},
		{"LeafNodeType": "It", "LeafNodeText": "skips itself", "State": "skipped", "Failure": {"Message": "no IPv6"},
			"LeafNodeLocation": {"FileName": "/tests/b.go", "LineNumber": 1}},
		{"LeafNodeType": "It", "LeafNodeText": "is not chosen", "State": "skipped",
			"LeafNodeLocation": {"FileName": "/tests/b.go", "LineNumber": 2}},
		{"LeafNodeType": "It", "LeafNodeText": "is pending", "State": "pending",
			"LeafNodeLocation": {"FileName": "/tests/b.go", "LineNumber": 3}},
		{"LeafNodeType": "It", "LeafNodeText": "takes too long", "State": "timedout",
			"LeafNodeLocation": {"FileName": "/tests/b.go", "LineNumber": 4}},
		{"LeafNodeType": "It", "LeafNodeText": "is interrupted", "State": "interrupted",
			"LeafNodeLocation": {"FileName": "/tests/b.go", "LineNumber": 5}}
	]
}]`

// reportOf returns the report of a text.
func reportOf(t *testing.T, text string) report {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	r, err := readReport(path)
	require.NoError(t, err)
	return r
}

func TestReadsGinkgosReport(t *testing.T) {
	r := reportOf(t, reported)
	require.NoError(t, r.failedPreparation())
	require.Equal(t, []spec{
		{At: "a.go:20", Name: "panics", Outcome: failed, Commit: "abc"},
		{At: "a.go:100", Name: "fails", Outcome: failed, Seconds: 1, Commit: "abc",
			Message: "Expected <bool>: false to be true"},
		{At: "b.go:1", Name: "skips itself", Outcome: skipped, Commit: "abc", Message: "no IPv6"},
		{At: "b.go:2", Name: "is not chosen"},
		{At: "b.go:3", Name: "is pending", Outcome: skipped, Message: "KubeVirt has marked the spec as pending."},
		{At: "b.go:4", Name: "takes too long", Outcome: failed, Commit: "abc"},
		{At: "b.go:5", Name: "is interrupted"},
		{At: "compute/vm.go:12", Name: "[sig-compute]VM started runs", Outcome: passed, Seconds: 28, Commit: "abc",
			Labels: []string{"Serial", "conformance", "sig-compute"}},
	}, r.specs("abc"))
}

func TestDryRunHasNoOutcomes(t *testing.T) {
	for _, s := range reportOf(t, strings.Replace(reported, `"DryRun": false`, `"DryRun": true`, 1)).specs("abc") {
		require.NotEqual(t, passed, s.Outcome, s.Name)
	}
}

func TestSpecsCutOffHaveNoOutcome(t *testing.T) {
	r := reportOf(t, reported)
	r.SpecialSuiteFailureReasons = []string{suiteTimeout}
	for _, s := range r.specs("abc") {
		require.False(t, s.Name == "takes too long" && s.Outcome != "")
	}
}

func TestReportsFailedPreparation(t *testing.T) {
	r := reportOf(t, `[{"SpecReports": [{"LeafNodeType": "SynchronizedBeforeSuite", "State": "failed",
		"Failure": {"Message": "no operator"}}]}]`)
	require.ErrorContains(t, r.failedPreparation(), "no operator")
}

func TestRefusesReportOfSeveralSuites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, os.WriteFile(path, []byte("[{}, {}]"), 0o644))
	_, err := readReport(path)
	require.ErrorContains(t, err, "2 suites")
}

func TestShortensMessages(t *testing.T) {
	require.Equal(t, "a b", shorten(" a\n\tb\n"))
	require.Equal(t, "SSH-2.0", shorten("SSH\x1b-2\x00.0\xff"))
	require.Len(t, []rune(shorten(strings.Repeat("ä", 2*maxMessage))), maxMessage)
}
