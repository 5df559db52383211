package admission

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	virtadmission "github.com/virtflow/virtflow/api/admission"
	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// newCluster returns options with default configuration, where virtflow's accounts stand for KubeVirt's.
func newCluster() virtadmission.Options {
	return virtadmission.Options{
		Cluster: func(context.Context) (defaults.Cluster, error) {
			return defaults.Cluster{Architecture: "amd64"}, nil
		},
		OwnUsers: []string{
			"system:serviceaccount:kubevirt:kubevirt-apiserver", "system:serviceaccount:kubevirt:kubevirt-controller",
			"system:serviceaccount:kubevirt:kubevirt-handler",
			"system:serviceaccount:kubevirt:kubevirt-synchronization-controller",
		},
		Controllers: []string{"system:serviceaccount:kubevirt:kubevirt-controller"},
		Nodes:       []string{"system:serviceaccount:kubevirt:kubevirt-handler"},
	}
}

func run(t *testing.T, e *Endpoint, records []*Record) []*Result {
	t.Helper()
	out := make([]*Result, len(records))
	for i, r := range records {
		got, err := e.Ask(r.Path, r.Request)
		require.NoError(t, err, "%s %s", r.ID, r.Title)
		out[i] = Compare(r, got)
	}
	return out
}

func list(results []*Result) string {
	n, err := strconv.Atoi(os.Getenv("VIRTFLOW_ADMISSION_LIST"))
	if err != nil {
		n = 20
	}
	return Disagreements(results, n)
}

func agreement(results []*Result) float64 {
	agree, of := 0, 0
	for _, r := range results {
		switch r.Outcome {
		case Agrees:
			agree++
			of++
		case Differs:
			of++
		default: // apart
		}
	}
	return float64(agree) / float64(max(of, 1))
}

// TestOwnCases: each case agrees, or is accepted by KubeVirt and refused here by name.
func TestOwnCases(t *testing.T) {
	records, err := Cases()
	require.NoError(t, err)
	known := map[string]bool{}
	for _, r := range records {
		require.False(t, known[r.ID], "two cases are called %s", r.ID)
		known[r.ID] = true
	}
	results := run(t, Start(t, newCluster()), records)
	suite.PrintFigures(t, "%s", Table("virtflow's own cases", results))
	require.Empty(t, Disagreements(results, len(results)))
	for _, r := range results {
		require.Contains(t, []Outcome{Agrees, NotRunYet}, r.Outcome, r.ID)
		require.True(t, r.Warnings || r.Outcome == NotRunYet, "%s warns of %v", r.ID, r.Got.Warnings)
	}
}

// Figures that must not shrink: the part of recorded cases that are compared and agree in full, and the part of all
// cases that are refused by name because virtflow does not support their feature yet.
const (
	leastShare     = 0.99
	mostUnfinished = 0.05
)

func unfinished(results []*Result) float64 {
	n := 0
	for _, r := range results {
		if r.Outcome == NotRunYet {
			n++
		}
	}
	return float64(n) / float64(max(len(results), 1))
}

func TestRecordedCases(t *testing.T) {
	name := os.Getenv("VIRTFLOW_ADMISSION_CASES")
	if name == "" {
		t.Skip("VIRTFLOW_ADMISSION_CASES names no file")
	}
	records, err := Read(name)
	require.NoError(t, err)
	require.NotEmpty(t, records)
	results := run(t, Start(t, newCluster()), records)
	suite.PrintFigures(t, "%s", Table("recorded", results))
	if l := list(results); l != "" {
		fmt.Println(l)
	}
	require.GreaterOrEqual(t, agreement(results), leastShare)
	require.LessOrEqual(t, unfinished(results), mostUnfinished)
}
