package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// leg is the time from a user's request about a machine until another request about it was answered. The audit log has
// neither the requests of Kubernetes's own controllers (such as the binding of pods), nor the names that the API server
// generates (KubeVirt's pods). Reads, watches and recorded events do not count.
type leg struct {
	What     string        `json:"what"` // user agent and request; a machine's second such request is another leg
	Machines int           `json:"machines"`
	Median   time.Duration `json:"median"`
	P95      time.Duration `json:"p95"`
}

// trail has the requests about each machine.
type trail map[string][]request

type request struct {
	what                string
	users               bool // the user's own request of this step
	received, completed time.Time
}

// machineName matches in the names of a machine's objects, unless they are named by a UID.
var machineName = regexp.MustCompile(`\bvm\d{5}\b`)

// add records a request if it has changed something about a machine.
func (t trail) add(l auditLine) {
	switch name := machineName.FindString(l.Object.Name); {
	case name == "", l.Verb == "get", l.Object.Resource == "events", l.Answer.Code >= 400:
	default:
		by, _, _ := strings.Cut(l.UserAgent, "/")
		t[name] = append(t[name], request{
			what: by + ": " + l.what(), received: l.Received, completed: l.Completed,
			users: by == "kubectl" && l.Verb == "delete" ||
				by == "scale" && l.Verb == "create" && strings.HasPrefix(l.Object.Resource, "virtualmachine"),
		})
	}
}

// legs returns the legs of more than half of the machines whose user's request is known, in the order of their times.
func (t trail) legs() []leg {
	took, machines := map[string][]time.Duration{}, 0
	for _, requests := range t {
		slices.SortFunc(requests, func(a, b request) int { return a.received.Compare(b.received) })
		first := slices.IndexFunc(requests, func(r request) bool { return r.users })
		if first < 0 {
			continue
		}
		machines++
		times := map[string]int{}
		for _, r := range requests[first:] {
			what := r.what
			if times[what]++; times[what] > 1 {
				what += fmt.Sprintf(" (%d)", times[what])
			}
			took[what] = append(took[what], r.completed.Sub(requests[first].received))
		}
	}
	var out []leg
	for what, all := range took {
		if n := len(all); 2*n > machines {
			slices.Sort(all)
			out = append(out, leg{What: what, Machines: n, Median: all[n/2], P95: all[n*95/100]})
		}
	}
	slices.SortFunc(out, func(a, b leg) int {
		return cmp.Or(cmp.Compare(a.Median, b.Median), strings.Compare(a.What, b.What))
	})
	return out
}

// printLegs writes the legs of a step of n machines.
func printLegs(out io.Writer, legs []leg, n int) {
	for _, l := range legs {
		of := ""
		if l.Machines < n {
			of = fmt.Sprintf(" (of %d)", l.Machines)
		}
		fmt.Fprintf(out, "scale:   after %s (95th percentile %s)  %s%s\n", l.Median.Round(time.Millisecond),
			l.P95.Round(time.Millisecond), l.What, of)
	}
}
