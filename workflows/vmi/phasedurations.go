package vmi

import (
	"fmt"
	"strings"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// phaseDurations returns how long an instance was in each of its phases, and since when it is in the last one. It shows
// what a slow start waited for. It returns "" before there are two phases.
func phaseDurations(times []contract.PhaseTime) string {
	if len(times) < 2 {
		return ""
	}
	var parts []string
	for i, t := range times[:len(times)-1] {
		parts = append(parts, fmt.Sprintf("%s for %s", t.Phase, times[i+1].Time.Sub(t.Time)))
	}
	last := times[len(times)-1]
	return fmt.Sprintf("It was %s, and has been %s since %s.", strings.Join(parts, ", "), last.Phase,
		last.Time.UTC().Format(time.RFC3339))
}
