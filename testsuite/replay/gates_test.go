package replay_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// nondeterminism is the SDK's code for a history that does not replay.
const nondeterminism = "[TMPRL1100]"

// gate is a line at which a run without a change keeps to what it did before: a call of HasChange.
type gate struct {
	name string // file and function
	line string // file and number
}

// unheld returns the gates that no history holds, and why.
func unheld() map[string]string {
	const unrecorded = "no history of v0.1.0 has it yet"
	return map[string]string{
		"workflows/migrationqueue/plan.go assess":     unrecorded,
		"workflows/vm/backoff.go limitsEnds":          unrecorded,
		"workflows/vm/conditions.go mirrorConditions": unrecorded,
		"workflows/vm/status.go observedGeneration":   unrecorded,
	}
}

// TestHistoriesHoldGates removes each gate in turn, and requires that a recorded history then does not replay: what no
// history holds can be lost without notice. With VIRTFLOW_TURN one gate is removed in each run.
func TestHistoriesHoldGates(t *testing.T) {
	program := buildWithoutGates(t)
	gates, names := findGates(t), map[string]bool{}
	run, limited := suite.Turn(t)
	for n, g := range gates {
		names[g.name] = true
		t.Run(g.name, func(t *testing.T) {
			if limited && n != run%len(gates) {
				t.Skip("it is the turn of another gate")
			}
			cmd := exec.CommandContext(t.Context(), program,
				"-test.run", "^TestRecordedHistoriesReplay$", "-test.failfast")
			// TEMPORAL_DEBUG turns off the SDK's deadlock detector, which fails replays on a busy machine.
			cmd.Env = append(os.Environ(), "VIRTFLOW_FIGURES=", "TEMPORAL_DEBUG=1", "REMOVED_GATE="+g.line)
			out, err := cmd.CombinedOutput()
			if why := unheld()[g.name]; why != "" {
				require.NoError(t, err, "a history holds it although %s\n%s", why, out)
				return
			}
			require.Error(t, err, "all histories replay without it: record one of the release before that does not")
			require.Contains(t, string(out), nondeterminism)
		})
	}
	for name := range unheld() {
		require.Contains(t, names, name)
	}
}

// findGates returns the calls of HasChange in workflows/.
func findGates(t *testing.T) (gates []gate) {
	t.Helper()
	function := regexp.MustCompile(`^func (?:\(.*?\) )?(\w+)`)
	folder := os.DirFS("../..")
	require.NoError(t, fs.WalkDir(folder, "workflows", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(folder, file)
		within := ""
		for i, line := range strings.Split(string(text), "\n") {
			if f := function.FindStringSubmatch(line); f != nil {
				within = f[1]
			}
			if strings.Contains(line, ".HasChange(") {
				gates = append(gates, gate{file + " " + within, fmt.Sprintf("%s:%d", file, i+1)})
			}
		}
		return err
	}))
	require.NotEmpty(t, gates)
	return gates
}

// buildWithoutGates builds the tests of this package so that a run has each change at the line that the environment
// variable REMOVED_GATE names.
func buildWithoutGates(t *testing.T) (program string) {
	t.Helper()
	logic, err := filepath.Abs("../../workflows/entity/logic.go")
	require.NoError(t, err)
	removed, err := filepath.Abs("testdata/logic.go.txt")
	require.NoError(t, err)
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{logic: removed}})
	require.NoError(t, err)
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(overlay, data, 0o600))
	program = filepath.Join(t.TempDir(), "replay.test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-buildvcs=false",
		"-overlay", overlay, "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}
