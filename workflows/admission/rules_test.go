package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// moment is so many seconds after the tests' beginning.
func moment(seconds int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

func object(name string) contract.Object {
	return contract.Object{Namespace: "a", Name: name, UID: "uid-" + name}
}

// waiter is a migration that wants to begin, made so many seconds after the beginning.
func waiter(name, node string, since int, changes ...func(*Entry)) Entry {
	e := Entry{Migration: object(name), Node: node, Since: moment(since), Asked: true}
	for _, change := range changes {
		change(&e)
	}
	return e
}

func runner(name, node string) Entry {
	return Entry{Migration: object(name), Node: node, Started: true}
}

func priority(p string) func(*Entry) { return func(e *Entry) { e.Priority = p } }

func notBefore(seconds int) func(*Entry) {
	return func(e *Entry) { e.NotBefore = moment(seconds) }
}

// TestWhoIsAdmitted: each verdict as "name: admitted" or "name: place, why".
func TestWhoIsAdmitted(t *testing.T) {
	const now = 100
	limits := contract.ReadLimitsResult{Cluster: 3, Outbound: 2}
	full, fromN1 := "no more than 3 migrations", "no more than 2 migrations may run at a time from node n1"
	for name, c := range map[string]struct {
		entries []Entry
		limits  *contract.ReadLimitsResult
		closed  string
		want    []string
	}{
		"nobody": {},
		"one":    {entries: []Entry{waiter("x", "n1", 1)}, want: []string{"x: admitted"}},
		"one that has not asked": {
			entries: []Entry{{Migration: object("x"), Node: "n1", Seen: true}}},
		"two at once": {
			entries: []Entry{waiter("x", "n1", 1), waiter("y", "n1", 1)},
			want:    []string{"x: admitted", "y: admitted"}},
		"the cluster is full": {
			entries: []Entry{runner("r", "n1"), runner("s", "n2"), runner("t", "n3"), waiter("x", "n4", 1)},
			want:    []string{"x: 1, " + full}},
		"the last place goes to the oldest": {
			entries: []Entry{runner("r", "n1"), runner("s", "n2"), waiter("young", "n3", 2), waiter("old", "n4", 1)},
			want:    []string{"old: admitted", "young: 1, " + full}},
		"admitted counts as running": {
			entries: []Entry{runner("r", "n1"), runner("s", "n2"), waiter("x", "n3", 1),
				waiter("a", "n3", 1, func(e *Entry) { e.Admitted = moment(50) })},
			want: []string{"x: 1, " + full}},
		"a full node blocks nobody else": {
			entries: []Entry{runner("r", "n1"), runner("s", "n1"), waiter("x", "n1", 1), waiter("y", "n2", 2)},
			want:    []string{"x: 1, " + fromN1, "y: admitted"}},
		"who is admitted fills the node": {
			entries: []Entry{runner("r", "n1"), waiter("x", "n1", 1), waiter("y", "n1", 2), waiter("z", "n2", 3)},
			want:    []string{"x: admitted", "y: 1, " + fromN1, "z: admitted"}},
		"of a node that is not known none is full": {
			entries: []Entry{runner("r", ""), runner("s", ""), waiter("x", "", 1)}, want: []string{"x: admitted"}},
		"KubeVirt's priorities": {
			entries: []Entry{
				waiter("none", "n1", 1), waiter("what", "n1", 2, priority("urgent")),
				waiter("maintenance", "n2", 3, priority("system-maintenance")),
				waiter("user", "n3", 4, priority("user-triggered")),
				waiter("critical", "n4", 5, priority("system-critical")),
			},
			want: []string{"critical: admitted", "user: admitted", "maintenance: admitted", "none: 1, " + full,
				"what: 2, " + full}},
		"a back-off": {
			entries: []Entry{waiter("x", "n1", 1, notBefore(130)), waiter("y", "n1", 2, notBefore(now))},
			want: []string{"x: 1, its back-off lasts: not before 2026-01-01T00:02:10Z",
				"y: admitted"}},
		"a back-off that a person has ended": {
			entries: []Entry{waiter("x", "n1", 1, notBefore(130), func(e *Entry) { e.Hurried = true })},
			want:    []string{"x: admitted"}},
		"one without a workflow is not in line": {
			entries: []Entry{waiter("x", "n1", 1, func(e *Entry) { e.Lost = moment(90) }), waiter("y", "n1", 2)},
			want:    []string{"y: admitted"}},
		"nobody may": {
			entries: []Entry{waiter("x", "n1", 2), waiter("y", "n1", 1)}, closed: "held",
			want: []string{"y: 1, held", "x: 2, held"}},
		"more run than may": {
			entries: []Entry{runner("r", "n1"), runner("s", "n2"), waiter("x", "n3", 1)},
			limits:  &contract.ReadLimitsResult{Cluster: 1, Outbound: 1},
			want:    []string{"x: 1, no more than 1 migrations"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := limits
			if c.limits != nil {
				l = *c.limits
			}
			got := judge(c.entries, l, c.closed, moment(now))
			require.Len(t, got, len(c.want))
			for i, v := range got {
				text := strings.TrimPrefix(v.uid, "uid-") + ": admitted"
				if !v.admit {
					text = fmt.Sprintf("%s: %d, %s", strings.TrimPrefix(v.uid, "uid-"), v.position, v.why)
				}
				require.True(t, strings.HasPrefix(text, c.want[i]), "%q, not %q", text, c.want[i])
				require.Equal(t, v.admit, v.position == 0)
				require.Equal(t, v.admit, v.why == "")
			}
		})
	}
}

func TestWhatARepairMayNotDo(t *testing.T) {
	good := State{Entries: []Entry{waiter("x", "n1", 1), waiter("y", "n1", 1)}}
	require.NoError(t, sound(nil, &good))
	require.ErrorContains(t, sound(nil, &State{Entries: []Entry{{Migration: contract.Object{UID: "u"}}}}), "number 1")
	require.ErrorContains(t, sound(nil, &State{Entries: append(good.Entries, good.Entries[0])}), "twice")
	require.ErrorContains(t, sound(nil, &State{Limits: &contract.ReadLimitsResult{Cluster: -1}}), "less than none")
}

// TestThousandsMayWait: what the queue carries when it continues as new, and how often it tells them their positions,
// is bounded.
func TestThousandsMayWait(t *testing.T) {
	const many = 10000
	now := moment(0)
	var s State
	for i := range many {
		m := contract.Object{Namespace: fmt.Sprint("tenant-", i%7), Name: fmt.Sprint("evacuation-of-", i),
			UID: uuid.NewString()}
		s.Entries = append(s.Entries, Entry{Migration: m, VMI: fmt.Sprint("vm-", i), Node: fmt.Sprint("node-", i%100),
			Since: now, Asked: true, Seen: true, Version: fmt.Sprint(i), Heard: now, ToldAt: now,
			Told: contract.AdmissionObservation{Migration: m.UID, Sequence: now.UnixMilli(), Position: i + 1,
				Waiting: many, Why: "no more than 5 migrations may run at a time"}})
	}
	carried, err := entity.Encode(s)
	require.NoError(t, err)
	require.Less(t, len(carried), 1<<20, "Temporal takes 2 MiB, and this in base64")
	var again State
	require.NoError(t, entity.Decode(carried, &again))
	require.Equal(t, s, again)

	signals := 0.0 // in a minute
	for position := range many {
		signals += time.Minute.Seconds() / pause(position+1).Seconds()
	}
	require.Less(t, signals, 200.0)
}
