package migrationqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// moment returns the time that many seconds after the start of the tests.
func moment(seconds int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

func object(name string) contract.Object {
	return contract.Object{Namespace: "a", Name: name, UID: "uid-" + name}
}

// waiter returns a migration that wants to begin and was made that many seconds after the start.
func waiter(name, node string, since int, changes ...func(*Entry)) Entry {
	e := Entry{Migration: object(name), Node: node, Since: moment(since), Requested: true}
	for _, change := range changes {
		change(&e)
	}
	return e
}

func runner(name, node string) Entry {
	return Entry{Migration: object(name), Node: node, Started: true}
}

// returned is a migration that has given its position back, as its target's pod does not run.
func returned(name string) Entry {
	return waiter(name, "n1", 1, func(e *Entry) { e.Started, e.GaveBack, e.Unscheduled = true, true, true })
}

func priority(p string) func(*Entry) { return func(e *Entry) { e.Priority = p } }

// of puts a migration into another namespace.
func of(namespace string, e Entry) Entry {
	e.Migration.Namespace = namespace
	return e
}

func notBefore(seconds int) func(*Entry) {
	return func(e *Entry) { e.NotBefore = moment(seconds) }
}

// TestAdmission: the table has each result as "name: admitted" or "name: position, why".
func TestAdmission(t *testing.T) {
	const now = 100
	limits := contract.ReadLimitsResult{Cluster: 3, Outbound: 2}
	full, fromN1 := "no more than 3 migrations", "no more than 2 migrations may run at a time from node n1"
	for name, c := range map[string]struct {
		entries []Entry
		limits  *contract.ReadLimitsResult
		closed  string
		want    []string
	}{
		"none": {},
		"one":  {entries: []Entry{waiter("x", "n1", 1)}, want: []string{"x: admitted"}},
		"one that has not asked": {
			entries: []Entry{{Migration: object("x"), Node: "n1", Seen: true}}},
		"two at once": {
			entries: []Entry{waiter("x", "n1", 1), waiter("y", "n1", 1)},
			want:    []string{"x: admitted", "y: admitted"}},
		"the cluster is full": {
			entries: []Entry{runner("r", "n1"), runner("s", "n2"), runner("t", "n3"), waiter("x", "n4", 1)},
			want:    []string{"x: 1, " + full}},
		"the oldest gets the last slot": {
			entries: []Entry{runner("r", "n1"), runner("s", "n2"), waiter("young", "n3", 2), waiter("old", "n4", 1)},
			want:    []string{"old: admitted", "young: 1, " + full}},
		"admitted counts as running": {
			entries: []Entry{runner("r", "n1"), runner("s", "n2"), waiter("x", "n3", 1),
				waiter("a", "n3", 1, func(e *Entry) { e.Admitted = moment(50) })},
			want: []string{"x: 1, " + full}},
		"a full node does not block others": {
			entries: []Entry{runner("r", "n1"), runner("s", "n1"), waiter("x", "n1", 1), waiter("y", "n2", 2)},
			want:    []string{"x: 1, " + fromN1, "y: admitted"}},
		"an admitted migration counts towards its node": {
			entries: []Entry{runner("r", "n1"), waiter("x", "n1", 1), waiter("y", "n1", 2), waiter("z", "n2", 3)},
			want:    []string{"x: admitted", "y: 1, " + fromN1, "z: admitted"}},
		"an unknown node is never full": {
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
		"one without a workflow does not wait": {
			entries: []Entry{waiter("x", "n1", 1, func(e *Entry) { e.MissingSince = moment(90) }),
				waiter("y", "n1", 2)},
			want: []string{"y: admitted"}},
		"a closed queue": {
			entries: []Entry{waiter("x", "n1", 2), waiter("y", "n1", 1)}, closed: "held",
			want: []string{"y: 1, held", "x: 2, held"}},
		"a namespace has at most a third while others wait": {
			entries: []Entry{runner("r", "n1"), waiter("x", "n2", 1), waiter("y", "n3", 2),
				of("b", waiter("z", "n4", 3)), of("c", waiter("q", "n5", 4))},
			want: []string{"x: 1, " + full, "y: 2, " + full, "z: admitted", "q: admitted"}},
		"a namespace exceeds its quota when the others leave slots": {
			entries: []Entry{
				runner("r", "n1"), waiter("x", "n2", 1), waiter("y", "n3", 2), of("b", waiter("z", "n4", 3))},
			want: []string{"x: admitted", "y: 1, " + full, "z: admitted"}},
		"those that may not begin block no namespace over its quota": {
			entries: []Entry{runner("r", "n1"), waiter("x", "n2", 1), of("b", waiter("z", "n4", 2, notBefore(130)))},
			want:    []string{"x: admitted", "z: 1, its back-off"}},
		"a drain goes first, although its namespace has reached the quota": {
			entries: []Entry{runner("r", "n1"), runner("s", "n2"),
				waiter("x", "n3", 5, priority("system-critical")), of("b", waiter("z", "n4", 1))},
			want: []string{"x: admitted", "z: 1, " + full}},
		"an unscheduled one neither counts nor waits": {
			entries: []Entry{runner("r", "n1"), runner("s", "n2"),
				waiter("u", "n1", 1, func(e *Entry) { e.Started, e.GaveBack, e.Unscheduled = true, true, true }),
				waiter("x", "n3", 2)},
			want: []string{"x: admitted"}},
		"one that is scheduled again waits as others do": {
			entries: []Entry{runner("r", "n1"), runner("s", "n2"), runner("t", "n3"),
				waiter("u", "n1", 1, func(e *Entry) { e.Started, e.GaveBack = true, true })},
			want: []string{"u: 1, " + full}},
		"target pods that do not run are limited, too": {
			entries: []Entry{of("b", returned("r")), of("b", returned("s")), returned("t"), waiter("x", "n3", 2)},
			limits:  &contract.ReadLimitsResult{Cluster: 1, Outbound: 1},
			want:    []string{"x: 1, no more than 3 target pods may exist"}},
		"those of one namespace leave others all positions": {
			entries: []Entry{returned("r"), returned("s"), waiter("x", "n3", 1), of("b", waiter("y", "n1", 2))},
			limits:  &contract.ReadLimitsResult{Cluster: 1, Outbound: 1},
			want:    []string{"x: 1, no more than 1 migrations", "y: admitted"}},
		"what others' target pods wait for keeps no namespace and no drain back": {
			entries: []Entry{returned("r"), returned("s"), of("b", returned("t")), of("c", waiter("x", "n3", 1)),
				waiter("y", "n4", 2, priority(contract.PrioritySystemCritical))},
			limits: &contract.ReadLimitsResult{Cluster: 2, Outbound: 1},
			want:   []string{"y: admitted", "x: admitted"}},
		"those of one namespace are limited by themselves": {
			entries: []Entry{returned("r"), returned("s"), waiter("x", "n3", 1)},
			limits:  &contract.ReadLimitsResult{Cluster: 1, Outbound: 1},
			want:    []string{"x: 1, no more than 2 target pods of a namespace"}},
		"a target pod that runs by now counts once": {
			entries: []Entry{returned("r"), of("b", returned("s")),
				waiter("x", "n2", 2, func(e *Entry) { e.Started, e.GaveBack = true, true })},
			limits: &contract.ReadLimitsResult{Cluster: 1, Outbound: 1},
			want:   []string{"x: admitted"}},
		"more run than the limit permits": {
			entries: []Entry{runner("r", "n1"), runner("s", "n2"), waiter("x", "n3", 1)},
			limits:  &contract.ReadLimitsResult{Cluster: 1, Outbound: 1},
			want:    []string{"x: 1, no more than 1 migrations"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := limits
			if c.limits != nil {
				l = *c.limits
			}
			got := assess(c.entries, l, c.closed, true, moment(now))
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

// TestNamespaceQuotaIsFair: whatever waits and runs, no slot stays free that a migration may have, and a namespace
// exceeds its quota only where no other could have had the slot, or for the highest priority.
func TestNamespaceQuotaIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := contract.ReadLimitsResult{
			Cluster: rapid.IntRange(1, 8).Draw(t, "cluster"), Outbound: rapid.IntRange(1, 3).Draw(t, "outbound")}
		var entries []Entry
		for i := range rapid.IntRange(0, 12).Draw(t, "migrations") {
			e := Entry{Migration: object(fmt.Sprint(i)), Since: moment(i), Requested: true,
				Node:     rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node"),
				Priority: rapid.SampledFrom([]string{"", "", contract.PrioritySystemCritical}).Draw(t, "priority"),
				Started:  rapid.Bool().Draw(t, "started")}
			entries = append(entries, of(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"), e))
		}
		running, from, given := 0, map[string]int{}, map[string]int{}
		for _, e := range entries {
			if e.isRunning() {
				running++
				from[e.Node]++
				given[e.Migration.Namespace]++
			}
		}
		began := running
		line := waiting(entries)
		assessments := assess(entries, limits, "", true, moment(100))
		for i, v := range assessments {
			if v.admit {
				running++
				from[line[i].Node]++
				given[line[i].Migration.Namespace]++
			}
		}
		require.LessOrEqual(t, running, max(began, limits.Cluster))
		for i, v := range assessments {
			e := line[i]
			if v.admit {
				continue
			}
			require.True(t, running >= limits.Cluster || from[e.Node] >= limits.Outbound,
				"a slot stays free for %s", v.uid)
			if from[e.Node] >= limits.Outbound || given[e.Migration.Namespace] >= namespaceQuota(limits) {
				continue
			}
			for j, other := range assessments { // it is below its quota, and could have had another's slot
				o := line[j]
				require.False(t, other.admit && rank(o.Priority) < rank(contract.PrioritySystemCritical) &&
					o.Migration.Namespace != e.Migration.Namespace &&
					given[o.Migration.Namespace] > namespaceQuota(limits),
					"%s has a slot that was %s's", o.Migration.Namespace, e.Migration.Namespace)
			}
		}
	})
}

func TestRepairRefusesInconsistentState(t *testing.T) {
	good := State{Entries: []Entry{waiter("x", "n1", 1), waiter("y", "n1", 1)}}
	require.NoError(t, validate(nil, &good))
	noName := State{Entries: []Entry{{Migration: contract.Object{UID: "u"}}}}
	require.ErrorContains(t, validate(nil, &noName), "number 1")
	require.ErrorContains(t, validate(nil, &State{Entries: append(good.Entries, good.Entries[0])}), "twice")
	require.ErrorContains(t, validate(nil, &State{Limits: &contract.ReadLimitsResult{Cluster: -1}}), "less than none")
}

// TestThousandsWait bounds what the queue carries when it continues as new, and how often it reports positions.
func TestThousandsWait(t *testing.T) {
	const many = 10000
	now := moment(0)
	var s State
	for i := range many {
		m := contract.Object{Namespace: fmt.Sprint("tenant-", i%7), Name: fmt.Sprint("evacuation-of-", i),
			UID: uuid.NewString()}
		s.Entries = append(s.Entries, Entry{Migration: m, VMI: fmt.Sprint("vm-", i), Node: fmt.Sprint("node-", i%100),
			Since: now, Requested: true, Seen: true, Version: fmt.Sprint(i), LastContact: now, SentAt: now,
			Sent: contract.AdmissionObservation{Migration: m.UID, Sequence: now.UnixMilli(), Position: i + 1,
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
		signals += time.Minute.Seconds() / positionInterval(position+1).Seconds()
	}
	require.Less(t, signals, 200.0)
}
