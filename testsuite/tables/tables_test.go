package tables_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/testsuite/suite"
	"github.com/virtflow/virtflow/testsuite/tables"
	"github.com/virtflow/virtflow/workflows/migration"
	"github.com/virtflow/virtflow/workflows/vm"
	"github.com/virtflow/virtflow/workflows/vmi"
)

func TestTablesHaveNoHoles(t *testing.T) {
	require.Empty(t, tables.CheckStrategies(runstrategy.Table()))
	require.Empty(t, tables.CheckPhases(vmi.Rules()))
	require.Empty(t, tables.CheckPrintables(vm.Printables()))
	require.Empty(t, tables.CheckMigrationPhases(migration.Rules()))
	require.Empty(t, tables.CheckVerdicts(migration.VerdictRules()))
	suite.PrintFigures(t, "state tables: rows %d, holes and unreachable states: 0",
		len(runstrategy.Table())+len(vmi.Rules())+len(vm.Printables())+len(migration.Rules())+
			len(migration.VerdictRules()))
}

// TestFindsHoles removes each row in turn: a table that lacks one must have an error. If one of two rules to the same
// phase is left, there is no error to find.
func TestFindsHoles(t *testing.T) {
	without := func(rows []runstrategy.Row, i int) []runstrategy.Row {
		return append(append([]runstrategy.Row{}, rows[:i]...), rows[i+1:]...)
	}
	for i, r := range runstrategy.Table() {
		if r.Request == runstrategy.NoRequest {
			require.NotEmpty(t, tables.CheckStrategies(without(runstrategy.Table(), i)), "%+v", r)
		}
		require.NotEmpty(t, tables.CheckStrategies(append(runstrategy.Table(), r)), "%+v twice", r)
	}
	var toRunning []vmi.Rule
	for _, r := range vmi.Rules() {
		if r.To != vmi.PhaseRunning {
			toRunning = append(toRunning, r)
		}
	}
	require.Contains(t, tables.CheckPhases(toRunning), `nothing leads to "Running"`)
	stuck := vmi.Rules()
	for i := range stuck {
		if stuck[i].To.Final() {
			stuck[i].From = []vmi.Phase{vmi.PhaseScheduled}
		}
	}
	require.Contains(t, tables.CheckPhases(stuck), `nothing leads out of "Running"`)
	for i, r := range migration.VerdictRules() {
		rows := migration.VerdictRules()
		if last := i == len(rows)-1; last {
			require.NotEmpty(t, tables.CheckVerdicts(rows[:i]), "without the last")
		}
		require.NotEmpty(t, tables.CheckVerdicts(append(rows, r)), "%+v twice", r)
	}
	var toRunningMigration []migration.Rule
	for _, r := range migration.Rules() {
		if r.To != migration.PhaseRunning {
			toRunningMigration = append(toRunningMigration, r)
		}
	}
	require.Contains(t, tables.CheckMigrationPhases(toRunningMigration), `nothing leads to "Running"`)
	for i := range vm.Printables() {
		rows := vm.Printables()
		require.NotEmpty(t, tables.CheckPrintables(append(rows[:i], rows[i+1:]...)))
	}
}

func TestPagesMatchTables(t *testing.T) {
	for name, text := range map[string]string{
		"lifecycle-tables.md": tables.Markdown(), "unsupported.md": tables.Unsupported(),
	} {
		page, err := os.ReadFile("../../docs/" + name)
		require.NoError(t, err)
		require.Equal(t, text, string(page), "run make generate")
	}
}
