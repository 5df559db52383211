package admission

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// rank is how urgent a migration is: the order is KubeVirt's.
func rank(priority string) int {
	switch priority {
	case contract.PrioritySystemCritical:
		return 100
	case contract.PriorityUserTriggered:
		return 50
	case contract.PrioritySystemMaintenance:
		return 20
	default:
		return 0
	}
}

// verdict is what the rules say of a migration that waits.
type verdict struct {
	uid      string
	admit    bool
	position int    // among those that wait then, from 1; 0: it is admitted
	why      string // it is not
}

// waiting are the migrations that wait, in their order: the urgent first, then the old. What is of one age is ordered
// by what differs.
func waiting(entries []Entry) []Entry {
	var out []Entry
	for i := range entries {
		if entries[i].waits() {
			out = append(out, entries[i])
		}
	}
	slices.SortFunc(out, func(a, b Entry) int {
		return cmp.Or(
			cmp.Compare(rank(b.Priority), rank(a.Priority)), a.Since.Compare(b.Since),
			cmp.Compare(a.Migration.UID, b.Migration.UID))
	})
	return out
}

// judge says of each migration that waits, in order, whether it may begin now. One that may not does not keep those
// behind it from beginning. closed is why nobody may ("": somebody may).
func judge(entries []Entry, limits contract.ReadLimitsResult, closed string, now time.Time) []verdict {
	running, from := 0, map[string]int{}
	for i := range entries {
		if entries[i].runs() {
			running++
			from[entries[i].Node]++
		}
	}
	var out []verdict
	position := 0
	for _, e := range waiting(entries) {
		v := verdict{uid: e.Migration.UID}
		switch until := e.backOff(); {
		case closed != "":
			v.why = closed
		case now.Before(until):
			v.why = "its back-off lasts: not before " + until.UTC().Format(time.RFC3339)
		case running >= limits.Cluster:
			v.why = fmt.Sprintf("no more than %d migrations may run at a time", limits.Cluster)
		case e.Node != "" && from[e.Node] >= limits.Outbound:
			v.why = fmt.Sprintf("no more than %d migrations may run at a time from node %s", limits.Outbound, e.Node)
		default:
			v.admit = true
			running++
			from[e.Node]++
		}
		if !v.admit {
			position++
			v.position = position
		}
		out = append(out, v)
	}
	return out
}
