package main

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Outcomes of a spec.
const (
	passed = "passed"
	failed = "failed"
	// skipped specs ended themselves, because the cluster lacks what they need.
	skipped = "skipped"
)

// spec is one of KubeVirt's specs, with its outcome when it last ran.
type spec struct {
	// At is the spec's file, below the folder of KubeVirt's tests, and its line.
	At string `json:"at"`
	// Name is unique.
	Name   string   `json:"name"`
	Labels []string `json:"labels"`
	// Outcome is empty for a spec that has not run.
	Outcome string `json:"outcome,omitempty"`
	Seconds int    `json:"seconds,omitempty"`
	// Commit of this project is the one that the spec ran with.
	Commit string `json:"commit,omitempty"`
	// Message has the beginning of the failure's text, or of the reason for which the spec was skipped.
	Message string `json:"message,omitempty"`
}

// line returns the text in which FOCUS and reasons look for their expressions.
func (s spec) line() string {
	return s.At + " {" + strings.Join(s.Labels, ",") + "} " + s.Name
}

// bookkeeping are the parts of names by which KubeVirt finds a spec's requirement, owner and group.
var bookkeeping = regexp.MustCompile(`\[(rfe_id|crit|vendor|level|posneg|sig-)[^\]]*\] *`)

// title returns the name without bookkeeping.
func (s spec) title() string { return strings.TrimSpace(bookkeeping.ReplaceAllString(s.Name, "")) }

// has reports whether the spec has a label.
func (s spec) has(label string) bool { return slices.Contains(s.Labels, label) }

// sigs are KubeVirt's special interest groups. Some specs have two of their labels: the first here counts.
var sigs = []string{"sig-compute-migrations", "sig-compute-instancetype", "sig-compute-realtime", "sig-compute",
	"sig-network", "sig-storage", "sig-operator", "sig-monitoring", "sig-performance"}

// sig returns the spec's group; "": none.
func (s spec) sig() string {
	i := slices.IndexFunc(sigs, s.has)
	if i < 0 {
		return ""
	}
	return sigs[i]
}

// file returns the spec's file and line.
func (s spec) file() (name string, line int) {
	name, number, _ := strings.Cut(s.At, ":")
	line, _ = strconv.Atoi(number)
	return name, line
}

// compare orders specs by file, line and name.
func compare(a, b spec) int {
	aFile, aLine := a.file()
	bFile, bLine := b.file()
	return cmp.Or(cmp.Compare(aFile, bFile), cmp.Compare(aLine, bLine), cmp.Compare(a.Name, b.Name))
}
