package guests

import (
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
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
	// Blocked: it is to be moved and cannot, which somebody has to change.
	Blocked Standing = "blocked"
	// Others: somebody else has it leave, or does not.
	Others Standing = "others"
)

// Guest is an instance that is to leave.
type Guest struct {
	contract.Movable
	Standing Standing `json:"standing"`
	// Reason is why it stands so, in words, and Since is since when.
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	// Evicted says that its pod was. Refused is why nothing could be done about it when that was tried last, Tries how
	// often in a row, and RetryAt is when it is tried again.
	Evicted bool      `json:"evicted,omitempty"`
	Refused string    `json:"refused,omitempty"`
	Tries   int       `json:"tries,omitempty"`
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Hurried says that a person has ended its back-off after that many failures.
	Hurried int `json:"hurried,omitempty"`
}

// NotBefore is when something may be done about it; zero: at any time. Migrations that have failed delay the next one,
// not an eviction.
func (g *Guest) NotBefore() time.Time {
	end := entity.BackOffEnd(g.Failures, g.LastFailure)
	if g.Migratable && g.Hurried < g.Failures && end.After(g.RetryAt) {
		return end
	}
	return g.RetryAt
}

// Idle says that nothing has it leave: its turn has not come, or could not be taken.
func (g *Guest) Idle() bool { return g.Standing == Waiting || g.Standing == Blocked }
