package world

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestMigrationCosts counts virtflow's requests to the API server for one migration of a VM's guest, until nothing of
// the migration is left, and for a minute more. testsuite/crash counts what a migration costs Temporal, with a real
// server.
func TestMigrationCosts(t *testing.T) {
	for name, c := range map[string]struct {
		copies time.Duration
		most   int
	}{
		"that is copied at once": {0, 15},
		// Two more for the instance's progress, and the VM's status at the beginning and end of the copy.
		"that is copied for 8 s": {8 * time.Second, 17},
		// The instance writes its progress every ten seconds.
		"that is copied for 65 s": {65 * time.Second, 17 + 7},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []string
			events := 0
			for range 5 {
				// Sometimes two observations arrive apart, and each leads to a write: the smallest count is compared.
				if again, n := migrationCalls(t, c.copies); calls == nil || len(again) < len(calls) {
					calls, events = again, n
				}
			}
			suite.PrintFigures(t, "a migration of a guest %s: calls of the API server %d (%s), and %d events recorded", name,
				len(calls), countEqual(calls), events)
			require.LessOrEqual(t, len(calls), c.most, "%v", calls)
		})
	}
}

// migrationCalls runs one migration and returns the calls of the API server and the number of recorded events.
func migrationCalls(t *testing.T, copies time.Duration) (calls []string, events int) {
	w, err := New(Options{Guests: map[string]Guest{key: {Copies: copies}}})
	require.NoError(t, err)
	w.Run(func(w *World) {
		up(w)
		w.Sleep(time.Minute)
		w.Kube.Calls()
		w.Migrate(vm)
		w.waitForMigrations()
		w.Until(time.Minute, func() bool { return w.checkMigrationsEnded() == nil })
		w.Sleep(time.Minute)
		calls = w.Kube.Calls()
	})
	require.Empty(t, w.Broken)
	require.Equal(t, 1, w.Moved[key])
	return slices.DeleteFunc(calls, func(c string) bool {
		if c == "POST events" {
			events++
		}
		// The leases are written by crdwatch's leader, the bindings by the scheduler.
		return c == "POST events" || strings.HasSuffix(c, " leases") || c == "POST pods/binding"
	}), events
}

// countEqual counts equal calls, in alphabetical order.
func countEqual(calls []string) string {
	slices.Sort(calls)
	var out []string
	for len(calls) > 0 {
		n := 1
		for n < len(calls) && calls[n] == calls[0] {
			n++
		}
		out = append(out, fmt.Sprintf("%d %s", n, calls[0]))
		calls = calls[n:]
	}
	return strings.Join(out, ", ")
}
