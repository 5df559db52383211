package tables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/migration"
	"github.com/virtflow/virtflow/workflows/vm"
	"github.com/virtflow/virtflow/workflows/vmi"
)

// Markdown returns the page of all tables and diagrams.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# Lifecycle tables\n\n<!-- Written by make generate from the tables in workflows/: change " +
		"those. -->\n\n" +
		"What the planners look up, drawn from the code. [Lifecycle](lifecycle.md) explains it.\n")
	b.WriteString("\n## Phases of a VirtualMachineInstance\n\nFrom `workflows/vmi/phases.go`. Where several rules " +
		"leave a phase, the first that holds is taken.\n")
	b.WriteString(Phases(vmi.Rules()))
	b.WriteString("\n## Phases of a VirtualMachineInstanceMigration\n\nFrom `workflows/migration/phases.go`: the first " +
		"rule that holds is taken.\n")
	b.WriteString(MigrationPhases(migration.Rules()))
	b.WriteString("\n## Whose the guest of a migration is\n\nFrom `workflows/migration/verdict.go`: what follows from " +
		"the state at both ends, where the outcome\nof a migration is unknown. Rows are the state at the source, " +
		"columns that at the target.\n")
	b.WriteString(Verdicts())
	b.WriteString("\n## Run strategies of a VirtualMachine\n\nFrom `internal/runstrategy/table.go`: what is done " +
		"about the instance, by what it does and what is requested in\n" +
		"`status.stateChangeRequests`. A request that has no column of its own for a situation changes nothing there.\n")
	b.WriteString(Strategies(runstrategy.Table()))
	b.WriteString("\n## Printable status of a VirtualMachine\n\nFrom `workflows/vm/status.go`: the first that holds " +
		"is shown. Where something is awaited, the row marks its place: it cannot hold yet.\n")
	b.WriteString(Printables(vm.Printables()))
	return b.String()
}

// Phases draws the table of an instance's phases as a state diagram.
func Phases(rules []vmi.Rule) string { return diagram(instanceArrows(rules), phases()) }

// MigrationPhases draws the table of a migration's phases.
func MigrationPhases(rules []migration.Rule) string {
	return diagram(migrationArrows(rules), migration.Phases())
}

func instanceArrows(rules []vmi.Rule) []arrow[vmi.Phase] {
	all := make([]arrow[vmi.Phase], 0, len(rules))
	for _, r := range rules {
		all = append(all, arrow[vmi.Phase]{from: r.From, to: r.To, name: r.Name, decides: r.When != nil})
	}
	return all
}

func migrationArrows(rules []migration.Rule) []arrow[migration.Phase] {
	all := make([]arrow[migration.Phase], 0, len(rules))
	for _, r := range rules {
		all = append(all, arrow[migration.Phase]{from: r.From, to: r.To, name: r.Name, decides: r.When != nil})
	}
	return all
}

// phase is a phase of an instance or of a migration; the empty one is that of an object that was not observed yet.
type phase interface {
	~string
	Final() bool
}

// arrow is one rule of a table of phases.
type arrow[P phase] struct {
	from    []P
	to      P
	name    string
	decides bool // it has a condition
}

func diagram[P phase](rules []arrow[P], all []P) string {
	var b strings.Builder
	b.WriteString("\n```mermaid\nstateDiagram-v2\n")
	name := func(p P) string {
		if p == "" {
			return "[*]"
		}
		return string(p)
	}
	for _, r := range rules {
		for _, from := range r.from {
			fmt.Fprintf(&b, "    %s --> %s: %s\n", name(from), name(r.to), r.name)
		}
	}
	for _, p := range all {
		if p.Final() {
			fmt.Fprintf(&b, "    %s --> [*]\n", string(p))
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// Verdicts draws the verdict for each combination of a migration's ends, with its reason.
func Verdicts() string {
	var b strings.Builder
	b.WriteString("\n| source \\ target |")
	for _, t := range migration.Targets() {
		fmt.Fprintf(&b, " %s |", t)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(migration.Targets())) + "\n")
	for _, s := range migration.Sources() {
		fmt.Fprintf(&b, "| %s |", s)
		for _, t := range migration.Targets() {
			fmt.Fprintf(&b, " %s |", migration.DecideVerdict(s, t).Verdict)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n| verdict | because |\n|---|---|\n")
	for _, r := range migration.VerdictRules() {
		fmt.Fprintf(&b, "| %s | %s |\n", r.Verdict, r.Why)
	}
	return b.String()
}

// Strategies draws each run strategy as a state diagram, and every cell of its table.
func Strategies(rows []runstrategy.Row) string {
	var b strings.Builder
	for _, st := range strategies() {
		fmt.Fprintf(&b, "\n### %s\n\n```mermaid\nstateDiagram-v2\n", st)
		for _, r := range rows {
			if r.Strategy != st {
				continue
			}
			if to := leadsTo(r.Action); to != "" {
				label := does(r.Action)
				if r.Request != runstrategy.NoRequest {
					label += " (" + string(r.Request) + " requested)"
				}
				fmt.Fprintf(&b, "    %s --> %s: %s\n", r.Situation, to, label)
			}
		}
		b.WriteString("    alive --> succeeded: the guest powers off\n    alive --> failed: the guest fails\n    " +
			"deleting --> absent: everything of it is gone\n```\n\n")
		columns := []runstrategy.Request{}
		for _, q := range requests() {
			if slices.ContainsFunc(rows, func(r runstrategy.Row) bool { return r.Strategy == st && r.Request == q }) {
				columns = append(columns, q)
			}
		}
		b.WriteString("| instance |")
		for _, q := range columns {
			if q == runstrategy.NoRequest {
				b.WriteString(" no request |")
			} else {
				fmt.Fprintf(&b, " %s requested |", q)
			}
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
		for _, sit := range situations() {
			fmt.Fprintf(&b, "| %s |", sit)
			for _, q := range columns {
				fmt.Fprintf(&b, " %s |", cell(rows, st, sit, q))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func cell(rows []runstrategy.Row, st runstrategy.Strategy, sit runstrategy.Situation, q runstrategy.Request) string {
	i := slices.IndexFunc(rows, func(r runstrategy.Row) bool {
		return r.Strategy == st && r.Situation == sit && r.Request == q
	})
	switch {
	case i < 0 && q == runstrategy.NoRequest:
		return "**no row**"
	case i < 0:
		return "as without"
	}
	a := rows[i].Action
	if a.Why == "" {
		return does(a)
	}
	return does(a) + ": " + a.Why
}

// leadsTo returns the situation that an action leads to, for a diagram.
func leadsTo(a runstrategy.Action) runstrategy.Situation {
	switch a.Operation {
	case contract.OperationStart:
		return runstrategy.Alive
	case contract.OperationStop, contract.OperationRestart:
		return runstrategy.Deleting
	default:
		return ""
	}
}

func does(a runstrategy.Action) string {
	switch {
	case a.Always:
		return "the strategy becomes Always"
	case a.Rerun:
		return "a start is requested"
	case a.Operation == contract.OperationNone:
		return "–"
	}
	s := string(a.Operation)
	if a.AfterBackOff {
		s += " after back-off"
	}
	if a.Once {
		s += ", if that is new"
	}
	return s
}

// Printables lists the printable statuses in their order.
func Printables(rows []vm.Printable) string {
	var b strings.Builder
	b.WriteString("\n| order | status | awaits |\n|---|---|---|\n")
	for i, r := range rows {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", i+1, r.Status, r.Awaits)
	}
	return b.String()
}
