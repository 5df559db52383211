package world

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/figures"
)

// TestMigrationCosts counts virtflow's requests to the API server for the move of a VM's guest: until nothing is left
// of it, and for a while longer. What a migration costs Temporal is counted by testsuite/crash, with a real server.
func TestMigrationCosts(t *testing.T) {
	for name, c := range map[string]struct {
		copies time.Duration
		most   int
	}{
		"that is copied at once": {0, 15},
		// It shows that it is being copied: the instance once, its VM when it begins and ends.
		"that is copied for 8 s": {8 * time.Second, 17},
		// The instance says each ten seconds how far it is.
		"that is copied for 65 s": {65 * time.Second, 17 + 7},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []string
			events := 0
			for range 5 {
				// Now and then two observations come apart, and each is written down: the fewest count.
				if again, n := callsOfAMove(t, c.copies); calls == nil || len(again) < len(calls) {
					calls, events = again, n
				}
			}
			figures.Print(t, "a migration of a guest %s: calls of the API server %d (%s), and %d events recorded", name,
				len(calls), sums(calls), events)
			require.LessOrEqual(t, len(calls), c.most, "%v", calls)
		})
	}
}

// callsOfAMove tells of a guest that moves: the calls of the API server, and how many events were recorded.
func callsOfAMove(t *testing.T, copies time.Duration) (calls []string, events int) {
	w, err := New(Options{Guests: map[string]Guest{key: {Copies: copies}}})
	require.NoError(t, err)
	w.Run(func(w *World) {
		up(w)
		w.Sleep(time.Minute)
		w.Kube.Calls()
		w.Migrate(vm)
		w.migrated()
		w.Until(time.Minute, func() bool { return w.tidy() == nil })
		w.Sleep(time.Minute)
		calls = w.Kube.Calls()
	})
	require.Empty(t, w.Broken)
	require.Equal(t, 1, w.Moved[key])
	return slices.DeleteFunc(calls, func(c string) bool {
		if c == "POST events" {
			events++
		}
		// The last two are those of crdwatch's leader, and of the scheduler.
		return c == "POST events" || strings.HasSuffix(c, " leases") || c == "POST pods/binding"
	}), events
}

// sums counts what is alike, in alphabetical order.
func sums(calls []string) string {
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
