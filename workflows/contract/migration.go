package contract

import "time"

// MigrationProgress is how far a guest's move has come, by libvirt's count. Sizes are in bytes, rates in bytes a
// second.
type MigrationProgress struct {
	UID        string    `json:"uid"` // of the VirtualMachineInstanceMigration
	Role       string    `json:"role,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	Total      int64     `json:"total,omitempty"`
	Processed  int64     `json:"processed,omitempty"`
	Remaining  int64     `json:"remaining,omitempty"`
	DirtyRate  int64     `json:"dirtyRate,omitempty"`
	Rate       int64     `json:"rate,omitempty"`
	Iteration  int       `json:"iteration,omitempty"`
	DowntimeMs int64     `json:"downtimeMs,omitempty"` // that libvirt expects
	Mode       string    `json:"mode,omitempty"`
}

// MigrationStats are a move's measures, when it has ended.
type MigrationStats struct {
	TotalMs    int64 `json:"totalMs,omitempty"`
	DowntimeMs int64 `json:"downtimeMs,omitempty"`
	Bytes      int64 `json:"bytes,omitempty"`
	Iterations int64 `json:"iterations,omitempty"`
}

// MigrationState is how a move has ended, as the source's node knows it.
type MigrationState string

// The states.
const (
	// MigrationMoved: the guest is the target's, and goes on there as it was.
	MigrationMoved MigrationState = "moved"
	// MigrationSourceOff: the guest has left the source for good, and whether the target goes on is not known here.
	MigrationSourceOff MigrationState = "source-off"
	// MigrationStayed: the guest is the source's.
	MigrationStayed MigrationState = "stayed"
	// MigrationGuestEnded: the guest has ended at the source while it was moved, for a reason of its own.
	MigrationGuestEnded MigrationState = "guest-ended"
	// MigrationLost: nobody here knows; what is true is to be read at both ends.
	MigrationLost MigrationState = "lost"
)

// MigrationOutcome is how a move has ended.
type MigrationOutcome struct {
	State   MigrationState `json:"state"`
	Reason  string         `json:"reason,omitempty"`
	Aborted bool           `json:"aborted,omitempty"` // somebody asked for that
	Stats   MigrationStats `json:"stats,omitzero"`
	Mode    string         `json:"mode,omitempty"`
	// Target is the domain when it went on there; nil unless the state is MigrationMoved.
	Target *DomainObservation `json:"target,omitempty"`
}
