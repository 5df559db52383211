package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// choose returns the specs that an expression matches. Without one these are the specs that no reason leaves out.
func choose(specs []spec, focus *regexp.Regexp) []spec {
	var chosen []spec
	for _, e := range explainAll(specs) {
		isChosen := !e.isLeftOut()
		if focus != nil {
			isChosen = focus.MatchString(e.line())
		}
		if isChosen {
			chosen = append(chosen, e.spec)
		}
	}
	return chosen
}

// turn returns those specs that pass whose turn it is. There are as many turns as are necessary for each to last about
// so long.
func turn(specs []spec, number, processes int, lasts time.Duration) []spec {
	passing := slices.DeleteFunc(choose(specs, nil), func(s spec) bool { return s.Outcome != passed })
	total := time.Duration(0)
	for _, s := range passing {
		total += cost(s, processes)
	}
	turns := max(1, int(math.Ceil(float64(total)/float64(lasts))))
	// Dealt in order of their cost, so that all turns cost about the same.
	slices.SortFunc(passing, func(a, b spec) int {
		return cmp.Or(cmp.Compare(cost(b, processes), cost(a, processes)), compare(a, b))
	})
	var due []spec
	for i, s := range passing {
		if i%turns == number%turns {
			due = append(due, s)
		}
	}
	return due
}

// cost returns how much longer the run lasts for a spec. Serial specs run by themselves.
func cost(s spec, processes int) time.Duration {
	lasted := time.Duration(max(1, s.Seconds)) * time.Second
	if s.has("Serial") {
		return lasted
	}
	return lasted / time.Duration(processes)
}

// focusFiles returns the arguments by which Ginkgo runs these specs, and those on the same lines.
func focusFiles(specs []spec) []string {
	lines := map[string][]string{}
	for _, s := range specs {
		file, line := s.file()
		if number := fmt.Sprint(line); !slices.Contains(lines[file], number) {
			lines[file] = append(lines[file], number)
		}
	}
	var args []string
	for _, file := range slices.Sorted(maps.Keys(lines)) {
		args = append(args, "--focus-file=/tests/"+regexp.QuoteMeta(file)+"$:"+strings.Join(lines[file], ","))
	}
	return args
}
