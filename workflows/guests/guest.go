package guests

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Standing is how far a guest is with leaving its launcher.
type Standing string

// The standings.
const (
	// Waiting: its turn has not come.
	Waiting Standing = "waiting"
	// Migrating: a migration of it has not ended.
	Migrating Standing = "migrating"
	// Leaving: it was evicted, or is being deleted.
	Leaving Standing = "leaving"
	// Blocked: it has to migrate and cannot; a person has to change that.
	Blocked Standing = "blocked"
	// Others: another workflow or a person decides about it.
	Others Standing = "others"
)

// Guest is an instance that is to leave.
type Guest struct {
	contract.Movable
	Standing Standing `json:"standing"`
	// Reason explains the standing, for people. Since is since when it holds.
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	// Evicted means that its pod was evicted. Refused is why the last attempt failed, Tries the number of failed
	// attempts in a row, and RetryAt when the next is due.
	Evicted bool      `json:"evicted,omitempty"`
	Refused string    `json:"refused,omitempty"`
	Tries   int       `json:"tries,omitempty"`
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Hurried is the number of failures after which a person ended its back-off.
	Hurried int `json:"hurried,omitempty"`
}

// NotBefore returns when the next attempt may begin; zero: at any time. Failed migrations delay the next migration, not
// an eviction.
func (g *Guest) NotBefore() time.Time {
	end := entity.BackOffEnd(g.Failures, g.LastFailure)
	if g.Migratable && g.Hurried < g.Failures && end.After(g.RetryAt) {
		return end
	}
	return g.RetryAt
}

// Idle reports whether the guest neither migrates nor leaves: its turn has not come, or it is blocked.
func (g *Guest) Idle() bool { return g.Standing == Waiting || g.Standing == Blocked }
