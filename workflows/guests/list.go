package guests

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// List is who is to leave, in the order in which that is to be. A list is never changed, since what a query was
// answered must not be: its methods return another one.
type List []Guest

// Judge says how a guest stands, and why.
type Judge func(*Guest) (Standing, string)

// leastPause is that between two attempts at what the API server refuses.
const leastPause = 10 * time.Second

// See takes in who was found, and says who of those before is not there any more. Where there are more than were found,
// nobody who idles is missed: it may be one of those. When it is found again, what it was refused is forgotten.
func (l List) See(now time.Time, found []contract.Movable, more int, judge Judge) (next List, gone []Guest) {
	next = make(List, 0, len(found))
	for _, m := range found {
		g := Guest{Movable: m, Since: now}
		i := l.index(m.VMI.UID)
		if i >= 0 {
			b := l[i]
			g.Evicted, g.Refused, g.Tries, g.RetryAt, g.Hurried = b.Evicted, b.Refused, b.Tries, b.RetryAt, b.Hurried
			if g.Evicted && m.Running && !m.Deleting && !now.Before(b.Since.Add(evictAgain)) {
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
		if next.index(b.VMI.UID) < 0 && (more == 0 || !b.Idle()) {
			gone = append(gone, b)
		}
	}
	return next, gone
}

func (l List) index(uid string) int {
	return slices.IndexFunc(l, func(g Guest) bool { return g.VMI.UID == uid })
}

// Find is the guest of a VMI; nil: it is not there.
func (l List) Find(uid string) *Guest {
	if i := l.index(uid); i >= 0 {
		g := l[i]
		return &g
	}
	return nil
}

// with is the list in which one guest has changed.
func (l List) with(uid string, change func(*Guest)) List {
	next := slices.Clone(l)
	if i := next.index(uid); i >= 0 {
		change(&next[i])
	}
	return next
}

// Refused notes that nothing could be done about a guest.
func (l List) Refused(now time.Time, uid, why string) List {
	return l.with(uid, func(g *Guest) {
		g.Refused, g.Reason, g.Tries = why, why, g.Tries+1
		g.RetryAt = now.Add(max(entity.Pause(g.Tries), leastPause))
		if g.Standing != Blocked {
			g.Standing, g.Since = Blocked, now
		}
	})
}

// evictAgain is after which time a guest that runs on is evicted once more: its pod may be there again since etcd was
// put back. One that is on its way out is left as it is.
const evictAgain = time.Minute

// Evicted notes that a guest's pod was evicted.
func (l List) Evicted(now time.Time, uid string, judge Judge) List {
	return l.with(uid, func(g *Guest) {
		g.Evicted, g.Refused, g.Tries, g.RetryAt = true, "", 0, time.Time{}
		g.Standing, g.Since = Leaving, now
		_, g.Reason = judge(g)
	})
}

// Priority says who is to be looked at again first, and who last, where there are more than are looked at. More is how
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

// BacksOff says that a guest waits for another attempt.
func (l List) BacksOff() bool {
	return slices.ContainsFunc(l, func(g Guest) bool { return !g.NotBefore().IsZero() })
}

// Hurried ends the pauses before other attempts.
func (l List) Hurried() List {
	next := slices.Clone(l)
	for i := range next {
		next[i].RetryAt, next[i].Hurried = time.Time{}, next[i].Failures
	}
	return next
}

// Next are the first of those that idle and of whom which holds, at most so many, and when one may be that waits for
// another attempt (zero: none does). Whose migrations have failed less often come before others: one that no node takes
// must not hold up the rest for as long as its target waits for one.
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

// Count is how many guests stand so.
func (l List) Count(what ...Standing) int {
	n := 0
	for _, g := range l {
		if slices.Contains(what, g.Standing) {
			n++
		}
	}
	return n
}

// listed is how many guests Lines names.
const listed = 20

// Lines say how each stands, as a list in Markdown.
func (l List) Lines() string {
	var b strings.Builder
	for i, g := range l {
		if i == listed {
			fmt.Fprintf(&b, "\n- and %d more", len(l)-listed)
			break
		}
		fmt.Fprintf(&b, "\n- %s/%s: %s since %s: %s", g.VMI.Namespace, g.VMI.Name, g.Standing,
			g.Since.UTC().Format(time.RFC3339), g.Reason)
	}
	return b.String()
}

// Summary says in one sentence how many there are of what, without what there is none of.
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
