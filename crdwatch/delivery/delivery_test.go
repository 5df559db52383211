package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRemainingDebounce: all deliveries for a workflow wait until the first of them is due.
func TestRemainingDebounce(t *testing.T) {
	now := time.Now()
	waits := func(hold, since time.Duration) *Delivery {
		return &Delivery{Policy: Policy{Debounce: hold}, since: now.Add(-since)}
	}
	for name, c := range map[string]struct {
		list []*Delivery
		want time.Duration
	}{
		"nothing":                {nil, 0},
		"one":                    {[]*Delivery{waits(3*time.Second, time.Second)}, 2 * time.Second},
		"the second is urgent":   {[]*Delivery{waits(3*time.Second, 0), waits(0, 0)}, 0},
		"the second is earlier":  {[]*Delivery{waits(3*time.Second, 0), waits(time.Second, 0)}, time.Second},
		"the first has waited":   {[]*Delivery{waits(time.Second, time.Second), waits(time.Second, 0)}, 0},
		"the second has waited":  {[]*Delivery{waits(time.Second, 0), waits(time.Second, 2*time.Second)}, 0},
		"the first is the first": {[]*Delivery{waits(time.Second, 0), waits(3*time.Second, 0)}, time.Second},
	} {
		require.Equal(t, c.want, RemainingDebounce(c.list, now), name)
	}
}

// TestSupersededUrgentDeliveryStaysUrgent: a delivery stays urgent, whatever supersedes it.
func TestSupersededUrgentDeliveryStaysUrgent(t *testing.T) {
	of := func(hold time.Duration) *Delivery {
		return &Delivery{Workflow: "w", Signal: "s", UID: "u", Policy: Policy{Debounce: hold}}
	}
	later := of(time.Second)
	require.True(t, later.Supersede(of(0)))
	require.Zero(t, later.Debounce)
	later = of(time.Second)
	require.True(t, later.Supersede(of(2*time.Second)))
	require.Equal(t, time.Second, later.Debounce)
	sent := of(0)
	sent.attempted = true
	later = of(time.Second)
	require.True(t, later.Supersede(sent))
	require.Equal(t, time.Second, later.Debounce, "that is on its way")
}
