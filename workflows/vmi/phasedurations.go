package vmi

import (
	"fmt"
	"strings"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// phaseDurations says how long an instance was in each of its phases, and since when in the last one: where the time of
// a slow start went. "" before there are two.
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
