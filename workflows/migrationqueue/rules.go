package migrationqueue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// rank returns how urgent a migration is; a higher one goes first. The order is KubeVirt's.
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

// assessment is the rules' result for a migration that waits.
type assessment struct {
	uid      string
	admit    bool
	position int    // among those that still wait, from 1; 0: it is admitted
	why      string // it is not admitted; "": it is
}

// waiting returns the migrations that wait, in their order: by priority, then by age. The UID breaks a tie.
func waiting(entries []Entry) []Entry {
	var out []Entry
	for i := range entries {
		if entries[i].isWaiting() {
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

// namespaceQuota returns how many of the migrations that may run at a time one namespace may have while others wait.
func namespaceQuota(limits contract.ReadLimitsResult) int { return max(1, limits.Cluster/3) }

// targets returns how many migrations may have a target pod at a time, those counted that have returned their
// admission, and how many of the latter may be of one namespace. Both hold for namespaces with targets that do not run:
// a namespace without, and what is urgent most, may always begin.
func targets(limits contract.ReadLimitsResult) (all, returned int) {
	returned = 2 * limits.Cluster
	return returned + limits.Cluster, returned
}

// assess decides for each migration that waits, in order, whether it may begin now. A migration that must wait does not
// block those behind it. A namespace that has reached its quota comes after the others, except for migrations of the
// highest priority, such as a drain's. closed is the reason why no migration may begin ("": some may). Without quotas
// the namespaces do not count.
func assess(
	entries []Entry, limits contract.ReadLimitsResult, closed string, quotas bool, now time.Time,
) []assessment {
	running, from, of := 0, map[string]int{}, map[string]int{}
	returned, returnedOf := 0, map[string]int{}
	all, most := targets(limits)
	count := func(e *Entry) {
		if e.GaveBack {
			returned--
			returnedOf[e.Migration.Namespace]--
		}
		running++
		from[e.Node]++
		of[e.Migration.Namespace]++
	}
	for i := range entries {
		e := &entries[i]
		if e.GaveBack {
			returned++
			returnedOf[e.Migration.Namespace]++
		}
		if e.isRunning() {
			count(e)
		}
	}
	line := waiting(entries)
	out := make([]assessment, len(line))
	decide := func(i int, sharing bool) {
		e, v := &line[i], &out[i]
		v.uid, v.why = e.Migration.UID, ""
		urgent := rank(e.Priority) >= rank(contract.PrioritySystemCritical)
		bounded := !urgent && !e.GaveBack && returnedOf[e.Migration.Namespace] > 0
		switch until := e.backOff(); {
		case closed != "":
			v.why = closed
		case now.Before(until):
			v.why = "its back-off lasts: not before " + until.UTC().Format(time.RFC3339)
		case running >= limits.Cluster:
			v.why = fmt.Sprintf("no more than %d migrations may run at a time", limits.Cluster)
		case e.Node != "" && from[e.Node] >= limits.Outbound:
			v.why = fmt.Sprintf("no more than %d migrations may run at a time from node %s", limits.Outbound, e.Node)
		case bounded && running+returned >= all:
			v.why = fmt.Sprintf("no more than %d target pods may exist at a time", all)
		case bounded && returnedOf[e.Migration.Namespace] >= most:
			v.why = fmt.Sprintf("no more than %d target pods of a namespace may wait to run at a time", most)
		case sharing && of[e.Migration.Namespace] >= namespaceQuota(limits) && !urgent:
			v.why = "those of other namespaces come first" // the second pass admits it, unless they take all
		default:
			v.admit = true
			count(e)
		}
	}
	for _, sharing := range []bool{quotas, false} {
		for i := range line {
			if !out[i].admit {
				decide(i, sharing)
			}
		}
	}
	position := 0
	for i := range out {
		if !out[i].admit {
			position++
			out[i].position = position
		}
	}
	return out
}
