package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// pageBegins is the text before the tables.
//
//go:embed page.md
var pageBegins string

// page returns the page on the recorded specs.
func page(specs []spec) string {
	all := explainAll(specs)
	var b strings.Builder
	b.WriteString(pageBegins)
	b.WriteString(totals(all).sentence() + "\n\n")
	writeGroups(&b, all)
	writeKinds(&b, all)
	writeSpecs(&b, "Specs that ran and do not pass", filter(all, func(e explained) bool {
		return !e.isLeftOut() && (e.Outcome == failed || e.Outcome == skipped)
	}))
	writeSpecs(&b, "Specs that have not run yet", filter(all, func(e explained) bool {
		return !e.isLeftOut() && e.Outcome == ""
	}))
	writeSpecs(&b, "Specs that are left out", filter(all, explained.isLeftOut))
	return strings.TrimSpace(b.String()) + "\n"
}

// filter returns the specs for which a function returns true.
func filter(all []explained, isOne func(explained) bool) []explained {
	return slices.DeleteFunc(slices.Clone(all), func(e explained) bool { return !isOne(e) })
}

// isConformance reports whether KubeVirt counts the spec as a test of conformance.
func isConformance(e explained) bool { return e.has("conformance") }

// numbers counts specs.
type numbers struct{ all, pass, fail, skip, leftOut, notYet int }

// totals counts specs by their outcome.
func totals(all []explained) numbers {
	n := numbers{all: len(all)}
	for _, e := range all {
		switch {
		case e.isLeftOut():
			n.leftOut++
		case e.Outcome == passed:
			n.pass++
		case e.Outcome == failed:
			n.fail++
		case e.Outcome == skipped:
			n.skip++
		default:
			n.notYet++
		}
	}
	return n
}

// sentence returns the numbers in words.
func (n numbers) sentence() string {
	ran := n.pass + n.fail
	return fmt.Sprintf("%d of %d specs pass. That is %d %% of the %d that ran to their end.", n.pass, n.all,
		100*n.pass/max(1, ran), ran)
}

// writeGroups writes the table of sums by special interest group, of all, and of conformance.
func writeGroups(b *strings.Builder, all []explained) {
	b.WriteString("| group | specs | pass | fail | skip themselves | not run yet | left out |\n|---|---|---|---|---|---|---|\n")
	row := func(name string, group []explained) {
		if n := totals(group); n.all > 0 {
			fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %d |\n",
				name, n.all, n.pass, n.fail, n.skip, n.notYet, n.leftOut)
		}
	}
	for _, sig := range append(slices.Clone(sigs), "") {
		row(cmp.Or(sig, "none"), filter(all, func(e explained) bool { return e.sig() == sig }))
	}
	row("all", all)
	row("of these, conformance", filter(all, isConformance))
	b.WriteString("\n")
}

// writeKinds writes the table of the kinds of reasons.
func writeKinds(b *strings.Builder, all []explained) {
	b.WriteString("| kind of reason | meaning | specs | of these, conformance |\n|---|---|---|---|\n")
	for _, k := range kinds() {
		has := filter(all, func(e explained) bool {
			return e.index >= 0 && reasons[e.index].kind == k && (e.isLeftOut() || e.Outcome != passed)
		})
		fmt.Fprintf(b, "| %s | %s | %d | %d |\n", k.name, k.meaning, len(has), len(filter(has, isConformance)))
	}
	has := filter(all, func(e explained) bool { return e.index < 0 && e.Outcome == failed })
	fmt.Fprintf(b, "| none yet | fails for a reason that is not known | %d | %d |\n", len(has),
		len(filter(has, isConformance)))
	b.WriteString("\n")
}

// writeSpecs writes a table of specs, ordered by their reason.
func writeSpecs(b *strings.Builder, title string, all []explained) {
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b explained) int { return cmp.Compare(a.index, b.index) })
	fmt.Fprintf(b, "## %s\n\n| spec | name | reason |\n|---|---|---|\n", title)
	for _, e := range all {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", e.At, code(e.title()), e.text())
	}
	b.WriteString("\n")
}

// code returns a text as code in a cell of a table.
func code(text string) string {
	return "`" + strings.NewReplacer("`", "'", "|", "\\|").Replace(text) + "`"
}

// numbersLine is the line of README.md with the numbers.
var numbersLine = regexp.MustCompile(`(?m)^- \[KubeVirt's functional tests\]\(docs/conformance\.md\): .*$`)

// withNumbers returns README.md with current numbers.
func withNumbers(readme string, specs []spec) string {
	explained := explainAll(specs)
	c, all := totals(filter(explained, isConformance)), totals(explained)
	return numbersLine.ReplaceAllLiteralString(readme, fmt.Sprintf(
		"- [KubeVirt's functional tests](docs/conformance.md): %d of the %d specs that have run pass (%d of %d for "+
			"conformance); %d have not run yet",
		all.pass, all.pass+all.fail, c.pass, c.pass+c.fail, all.notYet))
}
