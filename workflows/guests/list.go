package guests

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// List has the guests that are to leave, in the order in which they do. A list never changes, since it may be the
// answer to a query: its methods return another one.
type List []Guest

// Judge returns a guest's standing, and why.
type Judge func(*Guest) (Standing, string)

// minBackoff is the shortest back-off after the API server has refused.
const minBackoff = 10 * time.Second

// FoldFound folds in the guests that were found, and returns those that are gone. If there are more guests than were
// found, an idle one that was not found may be among the others: it is dropped without being gone, and its back-off
// with it.
func (l List) FoldFound(now time.Time, found []contract.Movable, more int, judge Judge) (next List, gone []Guest) {
	next = make(List, 0, len(found))
	for _, m := range found {
		g := Guest{Movable: m, Since: now}
		i := l.indexOf(m.VMI.UID)
		if i >= 0 {
			b := l[i]
			g.Evicted, g.Refused, g.Tries, g.RetryAt, g.Hurried = b.Evicted, b.Refused, b.Tries, b.RetryAt, b.Hurried
			if g.Evicted && m.Running && !m.Deleting && !now.Before(b.Since.Add(evictAgainAfter)) {
				g.Evicted = false
			}
		}
		if m.Migration.UID != "" {
			g.Refused, g.Tries, g.RetryAt = "", 0, time.Time{}
		}
		g.Standing, g.Reason = judge(&g)
		if i >= 0 && l[i].Standing == g.Standing {
			g.Since = l[i].Since
		}
		next = append(next, g)
	}
	for _, b := range l {
		if next.indexOf(b.VMI.UID) < 0 && (more == 0 || !b.Idle()) {
			gone = append(gone, b)
		}
	}
	return next, gone
}

func (l List) indexOf(uid string) int {
	return slices.IndexFunc(l, func(g Guest) bool { return g.VMI.UID == uid })
}

// Find returns the guest of a VMI, or nil.
func (l List) Find(uid string) *Guest {
	if i := l.indexOf(uid); i >= 0 {
		g := l[i]
		return &g
	}
	return nil
}

// withChange returns a list in which one guest has changed.
func (l List) withChange(uid string, change func(*Guest)) List {
	next := slices.Clone(l)
	if i := next.indexOf(uid); i >= 0 {
		change(&next[i])
	}
	return next
}

// RecordRefused records that an attempt for a guest was refused.
func (l List) RecordRefused(now time.Time, uid, why string) List {
	return l.withChange(uid, func(g *Guest) {
		g.Refused, g.Reason, g.Tries = why, why, g.Tries+1
		g.RetryAt = now.Add(max(entity.StepBackoff(g.Tries), minBackoff))
		if g.Standing != Blocked {
			g.Standing, g.Since = Blocked, now
		}
	})
}

// evictAgainAfter is when a guest that still runs is evicted again: a restore of etcd may have brought its pod back. A
// pod that is being deleted is not evicted again.
const evictAgainAfter = time.Minute

// RecordEvicted records that a guest's pod was evicted.
func (l List) RecordEvicted(now time.Time, uid string, judge Judge) List {
	return l.withChange(uid, func(g *Guest) {
		g.Evicted, g.Refused, g.Tries, g.RetryAt = true, "", 0, time.Time{}
		g.Standing, g.Since = Leaving, now
		_, g.Reason = judge(g)
	})
}

// Priority returns which guests are to be found first, and which last, if there are more than can be found. More is how
// many there were before.
func (l List) Priority(more int) (p contract.Priority) {
	for i := range l {
		switch g := &l[i]; {
		case g.Standing == Migrating, g.Standing == Leaving:
			p.Leaving = append(p.Leaving, g.VMI.UID)
		case more > 0 && (g.Standing == Blocked || g.Standing == Others || g.Failures > 0 || !g.Running):
			p.Stuck = append(p.Stuck, g.VMI.UID)
		}
	}
	return p
}

// BacksOff reports whether a guest waits for another attempt.
func (l List) BacksOff() bool {
	return slices.ContainsFunc(l, func(g Guest) bool { return !g.NotBefore().IsZero() })
}

// EndBackOffs ends the back-offs.
func (l List) EndBackOffs() List {
	next := slices.Clone(l)
	for i := range next {
		next[i].RetryAt, next[i].Hurried = time.Time{}, next[i].Failures
	}
	return next
}

// Next returns the first idle guests for which the condition holds, at most so many. It also returns when the next
// back-off ends (zero: none). Guests with fewer failed migrations come first: one that no node accepts must not delay
// the others for as long as its target waits for a node.
func (l List) Next(now time.Time, most int, which func(*Guest) bool) (chosen []contract.Movable, at time.Time) {
	for i := range l {
		g := &l[i]
		if !g.Idle() || !which(g) {
			continue
		}
		switch before := g.NotBefore(); {
		case now.Before(before):
			at = entity.Sooner(at, before)
		default:
			chosen = append(chosen, g.Movable)
		}
	}
	slices.SortStableFunc(chosen, func(a, b contract.Movable) int { return cmp.Compare(a.Failures, b.Failures) })
	return chosen[:max(0, min(most, len(chosen)))], at
}

// Count returns the number of guests with one of these standings.
func (l List) Count(what ...Standing) int {
	n := 0
	for _, g := range l {
		if slices.Contains(what, g.Standing) {
			n++
		}
	}
	return n
}

// maxListed is how many guests Lines names.
const maxListed = 20

// Lines returns each guest's standing, as a list in Markdown.
func (l List) Lines() string {
	var b strings.Builder
	for i, g := range l {
		if i == maxListed {
			fmt.Fprintf(&b, "\n- and %d more", len(l)-maxListed)
			break
		}
		fmt.Fprintf(&b, "\n- %s/%s: %s since %s: %s", g.VMI.Namespace, g.VMI.Name, g.Standing,
			g.Since.UTC().Format(time.RFC3339), g.Reason)
	}
	return b.String()
}

// Summary returns one sentence with the number of guests of each kind, without those that are zero.
func (l List) Summary(moved, evicted, left, more int) string {
	parts := []string{fmt.Sprintf("%d moved", moved)}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(evicted, "evicted")
	add(left, "left in other ways")
	add(l.Count(Migrating), "migrating")
	add(l.Count(Leaving), "shutting down")
	add(l.Count(Waiting)+more, "waiting")
	add(l.Count(Blocked), "blocked")
	add(l.Count(Others), "left to others")
	return strings.Join(parts, ", ") + "."
}
