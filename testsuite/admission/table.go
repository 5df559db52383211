package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

type count struct{ same, total int }

func (s *count) add(same bool) {
	s.total++
	if same {
		s.same++
	}
}

func (s count) String() string {
	if s.total == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", s.same, s.total)
}

type row struct {
	cases, notServed, notRunYet, noExpected      int
	verdicts, allows, denials, mutations, warned count
	full                                         count
}

func (r *row) count(x *Result) {
	r.cases++
	switch x.Outcome {
	case NotServed:
		r.notServed++
		return
	case NotRunYet:
		r.notRunYet++
		return
	case NoExpected:
		r.noExpected++
		return
	default:
	}
	agrees := x.Outcome == Agrees
	r.verdicts.add(x.Verdict)
	r.full.add(agrees)
	if len(x.Want().Warnings) > 0 {
		r.warned.add(x.Warnings)
	}
	switch {
	case !x.Want().Allowed:
		r.denials.add(agrees)
	case x.Webhook == "mutating":
		r.mutations.add(agrees)
	default:
		r.allows.add(agrees)
	}
}

// Table returns the figures of a set of results, by kind. Denials agree in code, message, and every cause's reason,
// message and field; mutations in the whole object; allowed cases prove little, because a webhook that allows
// everything has them all.
func Table(title string, results []*Result) string {
	rows, total := map[string]*row{}, &row{}
	for _, x := range results {
		r := rows[x.Resource]
		if r == nil {
			r = &row{}
			rows[x.Resource] = r
		}
		r.count(x)
		total.count(x)
	}
	var b strings.Builder
	line := func(name string, r *row) {
		fmt.Fprintf(&b, "\n  %-34s %6d %7d %8d | %10s %10s %10s %10s %9s | %10s", name, r.cases, r.notServed,
			r.notRunYet,
			r.verdicts, r.denials, r.mutations, r.allows, r.warned, r.full)
	}
	percent := 0.0
	if total.full.total > 0 {
		percent = 100 * float64(total.full.same) / float64(total.full.total)
	}
	fmt.Fprintf(&b, "admission, %s: %d cases over HTTPS, %d apart as not served, %d apart as not run yet; of the "+
		"rest %s agree with KubeVirt in full (%.1f %%)",
		title, total.cases, total.notServed, total.notRunYet, total.full, percent)
	fmt.Fprintf(&b, "\n  %-34s %6s %7s %8s | %10s %10s %10s %10s %9s | %10s", "kind", "cases", "no hook", "not yet",
		"verdicts", "denials", "mutations",
		"allows", "warnings", "in full")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		line(name, rows[name])
	}
	line("all", total)
	return b.String()
}

// Disagreements lists up to limit disagreements.
func Disagreements(results []*Result, limit int) string {
	var b strings.Builder
	left := 0
	for _, x := range results {
		if x.Outcome != Differs {
			continue
		}
		if limit == 0 {
			left++
			continue
		}
		limit--
		fmt.Fprintf(&b, "- %s %s %s %s: %.120s\n    %s\n", x.ID, x.Webhook, x.Resource, x.Operation, x.Title,
			x.Different)
	}
	if left > 0 {
		fmt.Fprintf(&b, "and %d more\n", left)
	}
	return b.String()
}
