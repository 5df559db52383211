package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/virtflow/virtflow/crdwatch"
)

const (
	// moreCalls is the factor by which a VM under load may need more requests than at rest: a step that takes long is
	// written to a status meanwhile.
	moreCalls = 1.25
	// moreDeletes is how many more DELETEs than at rest a step under load may need for each VM: one with a lost answer
	// is sent again.
	moreDeletes = 0.1
	// mostFailedTasks is how many workflow tasks for each VM may fail, because a signal came meanwhile, and run again.
	mostFailedTasks = 0.3
	// lessGoodput is the part of the capacity that must be reached under load.
	lessGoodput = 0.8
)

// finding is one property, with its measurement and result.
type finding struct {
	Property string `json:"property"`
	Limit    string `json:"limit"`
	Measured string `json:"measured"`
	Good     bool   `json:"good"`
}

func exactly(property string, limit, measured int) finding {
	return finding{Property: property, Limit: fmt.Sprintf("= %d", limit), Measured: fmt.Sprint(measured),
		Good: measured == limit}
}

func atMost(property string, limit, measured float64) finding {
	return finding{Property: property, Limit: fmt.Sprintf("≤ %.2f", limit), Measured: fmt.Sprintf("%.2f", measured),
		Good: measured <= limit}
}

func holds(property string, is bool) finding {
	f := finding{Property: property, Limit: "yes", Measured: "no", Good: is}
	if is {
		f.Measured = "yes"
	}
	return f
}

// costs compares the requests for each VM of a step under load with those at rest.
func costs(property string, rest, load step) finding {
	limit := moreCalls * perVM(rest)
	return finding{
		Property: property, Limit: fmt.Sprintf("≤ %.1f (at rest %.1f)", limit, perVM(rest)),
		Measured: fmt.Sprintf("%.1f", perVM(load)), Good: perVM(load) > 0 && perVM(load) <= limit,
	}
}

// workedOnce checks that deletions and workflow tasks were not repeated, compared with the same step at rest.
func workedOnce(what string, rest, load step) []finding {
	out := []finding{atMost("DELETEs for each VM: "+what, deletes(rest)+moreDeletes, deletes(load))}
	if h := load.Histories; h != nil && h.Machines > 0 {
		failed := atMost("failed workflow tasks for each VM: "+what, mostFailedTasks, h.each(h.FailedTasks))
		for _, cause := range slices.Sorted(maps.Keys(h.Failures)) {
			failed.Measured += fmt.Sprintf(" %s %d", cause, h.Failures[cause])
		}
		out = append(out, failed)
	}
	return out
}

// deletes returns the DELETEs of a step for each VM.
func deletes(s step) float64 {
	n := 0
	for what, times := range s.Calls.By {
		if verb, _, _ := strings.Cut(what, " "); verb == "delete" || verb == "deletecollection" {
			n += times
		}
	}
	return s.each(n)
}

func perVM(s step) float64 { return s.each(s.Calls.Total) }

// goodput compares the rate of a step with the machine's capacity, or with the requested rate (0: more than the
// capacity).
func goodput(property string, rate float64, capacity, load step) finding {
	most := capacity.perSecond()
	limit := lessGoodput * most
	if rate > 0 {
		limit = lessGoodput * min(rate, most)
	}
	return finding{
		Property: property, Limit: fmt.Sprintf("≥ %.1f/s (it can do %.1f)", limit, most),
		Measured: fmt.Sprintf("%.1f/s", load.perSecond()), Good: load.perSecond() >= limit,
	}
}

// eventsLost compares with the events at rest, of which there must be some.
func eventsLost(property string, rest map[string]int, lost int) finding {
	f := exactly(property, 0, lost)
	if !slices.ContainsFunc(slices.Collect(maps.Values(rest)), func(n int) bool { return n > 0 }) {
		f.Measured, f.Good = "none was recorded at rest", false
	}
	return f
}

func renewed(longest time.Duration) finding {
	return finding{
		Property: "longest time in which crdwatch's lease was not renewed",
		Limit:    "< " + crdwatch.RenewDeadline.String(),
		Measured: round(longest).String(), Good: longest < crdwatch.RenewDeadline,
	}
}

func stopped(err error) finding {
	return finding{Property: "the run was finished", Limit: "yes", Measured: "no: " + err.Error()}
}

// printFindings writes the table, and reports whether every property holds.
func printFindings(out io.Writer, findings []finding) (good bool) {
	good = true
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "scale:\tproperty\tlimit\tmeasured\t")
	for _, f := range findings {
		mark := "FAIL"
		if f.Good {
			mark = "ok"
		}
		good = good && f.Good
		fmt.Fprintf(t, "scale:\t%s\t%s\t%s\t%s\n", f.Property, f.Limit, f.Measured, mark)
	}
	_ = t.Flush()
	return good
}

// printStep writes the results of a step.
func printStep(out io.Writer, what string, s step) {
	n := len(s.Took)
	if n == 0 {
		return
	}
	fmt.Fprintf(out, "scale: %s: %d, asked within %s, all after %s (%.1f/s); median %s, 95th percentile %s, "+
		"most %s\n", what, n,
		round(s.Asked), round(s.Whole), s.perSecond(), round(s.Took[n/2]), round(s.Took[n*95/100]), round(s.Took[n-1]))
	fmt.Fprintf(out, "scale:   %.2f requests and %.2f events for each\n", perVM(s), s.each(s.Calls.Events))
	for _, sums := range []map[string]int{s.Calls.By, s.Calls.Failed} {
		for _, k := range slices.Sorted(maps.Keys(sums)) {
			fmt.Fprintf(out, "scale:   %8.2f  %s\n", s.each(sums[k]), k)
		}
	}
	if h := s.Histories; h != nil {
		fmt.Fprintf(out, "scale:   in Temporal's histories for each (of %d): %.1f events, %.1f workflow tasks, "+
			"%.2f failed ones, %.2f that timed out in a sticky queue, %.1f signals\n", h.Machines, h.each(h.Events),
			h.each(h.Tasks), h.each(h.FailedTasks), h.each(h.ScheduleToStartTimeouts), h.each(h.Signals))
	}
	printLegs(out, s.Legs, n)
	printUsage(out, s.Used, n)
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
