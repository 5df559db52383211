package main

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func names(specs []spec) []string {
	var out []string
	for _, s := range specs {
		out = append(out, s.Name)
	}
	return out
}

func TestChoose(t *testing.T) {
	specs := []spec{
		{At: "compute/console.go:63", Name: "console", Labels: []string{"sig-compute"}},
		{At: "pool_test.go:181", Name: "pool", Labels: []string{"sig-compute"}, Outcome: passed},
		{At: "network/services.go:102", Name: "service", Labels: []string{"sig-network"}},
	}
	for focus, want := range map[string][]string{
		"":                  {"console", "service"},
		`console\.go:63\b`:  {"console"},
		`pool_test`:         {"pool"},
		`\{sig-compute\}`:   {"console", "pool"},
		`sig-network|^pool`: {"pool", "service"},
	} {
		var expression *regexp.Regexp
		if focus != "" {
			expression = regexp.MustCompile(focus)
		}
		require.Equal(t, want, names(choose(specs, expression)), focus)
	}
}

func TestTurnsHaveEachPassingSpecOnce(t *testing.T) {
	const processes = 4
	var specs []spec
	for i := range 300 {
		s := spec{At: fmt.Sprintf("a.go:%d", i), Name: fmt.Sprint(i), Outcome: passed, Seconds: 20 + i%100}
		if i%10 == 0 {
			s.Labels = []string{"Serial"}
		}
		specs = append(specs, s)
	}
	specs = append(specs, spec{At: "b.go:1", Name: "fails", Outcome: failed},
		spec{At: "pool_test.go:1", Name: "left out", Outcome: passed})
	seen, first := map[string]int{}, turn(specs, 0, processes, 10*time.Minute)
	number := 0
	for ; number == 0 || len(seen) < 300; number++ {
		var lasts time.Duration
		for _, s := range turn(specs, number, processes, 10*time.Minute) {
			seen[s.Name]++
			lasts += cost(s, processes)
		}
		require.Less(t, lasts, 13*time.Minute, "turn %d", number)
	}
	require.Len(t, seen, 300)
	for name, times := range seen {
		require.Equal(t, 1, times, name)
	}
	require.Equal(t, first, turn(specs, number, processes, 10*time.Minute), "the turns begin again")
}

func TestFocusFiles(t *testing.T) {
	require.Equal(t, []string{`--focus-file=/tests/a_test\.go$:1,20`, `--focus-file=/tests/compute/a_test\.go$:3`},
		focusFiles([]spec{{At: "compute/a_test.go:3"}, {At: "a_test.go:1"}, {At: "a_test.go:20"}, {At: "a_test.go:1"}}))
}
