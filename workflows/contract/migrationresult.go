package contract

import (
	"fmt"
	"time"
)

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
	Aborting   string    `json:"aborting,omitempty"` // why the launcher has libvirt abort it; "": it does not
}

// Copied is how much of the guest is at its target, in percent. It falls when the guest changes what was copied.
func (p MigrationProgress) Copied() int64 {
	if p.Total <= 0 {
		return 0
	}
	const percent = 100
	return int64(float64(p.Total-min(max(0, p.Remaining), p.Total)) / float64(p.Total) * percent)
}

// Text says it in words.
func (p MigrationProgress) Text() string {
	text := fmt.Sprintf("%d %% of %s copied, %s remaining, %s processed; iteration %d at %s/s, dirty rate %s/s, "+
		"expected downtime %d ms", p.Copied(), size(p.Total), size(p.Remaining), size(p.Processed), p.Iteration,
		size(p.Rate), size(p.DirtyRate), p.DowntimeMs)
	if p.Mode == ModePaused {
		text += "; the guest is paused until the rest is copied"
	}
	return text
}

// size is a number of bytes in words.
func size(n int64) string {
	const mi, gi = 1 << 20, 1 << 30
	if n >= gi {
		return fmt.Sprintf("%.1f GiB", float64(n)/gi)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/mi)
}

// ModePaused is KubeVirt's word for a migration that has paused its guest so that the rest is copied.
const ModePaused = "Paused"

// MigrationSummary is the result of a migration's workflow.
type MigrationSummary struct {
	// Phase is the last one; "": the object was gone before it was seen.
	Phase  string `json:"phase,omitempty"`
	Reason string `json:"reason,omitempty"` // why it failed
	// SourceNode and TargetNode: from where to where.
	SourceNode string         `json:"sourceNode,omitempty"`
	TargetNode string         `json:"targetNode,omitempty"`
	Mode       string         `json:"mode,omitempty"`
	Stats      MigrationStats `json:"stats,omitzero"`
}

// MigrationStats are a move's measures, when it has ended.
type MigrationStats struct {
	TotalMs    int64 `json:"totalMs,omitempty"`
	DowntimeMs int64 `json:"downtimeMs,omitempty"`
	Bytes      int64 `json:"bytes,omitempty"`
	Iterations int64 `json:"iterations,omitempty"`
}

// MigrationResult is how a move has ended, as the source's node knows it.
type MigrationResult string

// The results.
const (
	// ResultMoved: the guest is the target's, and goes on there as it was.
	ResultMoved MigrationResult = "moved"
	// ResultSourceOff: the guest has left the source for good, and whether the target goes on is not known here.
	ResultSourceOff MigrationResult = "source-off"
	// ResultStayed: the guest is the source's.
	ResultStayed MigrationResult = "stayed"
	// ResultGuestEnded: the guest has ended at the source while it was moved, for a reason of its own.
	ResultGuestEnded MigrationResult = "guest-ended"
	// ResultLost: nobody here knows; what is true is to be read at both ends.
	ResultLost MigrationResult = "lost"
)

// MigrationOutcome is how a move has ended.
type MigrationOutcome struct {
	Result  MigrationResult `json:"result"`
	Reason  string          `json:"reason,omitempty"`
	Aborted bool            `json:"aborted,omitempty"` // somebody asked for that
	Stats   MigrationStats  `json:"stats,omitzero"`
	Mode    string          `json:"mode,omitempty"`
	// Proof is the source's that the guest can never run there again; nil: it has given none.
	Proof *MigrationProof `json:"proof,omitempty"`
	// Target is the domain when it went on there; nil unless the result is ResultMoved.
	Target *DomainObservation `json:"target,omitempty"`
}

// MigrationProof is how a source knows that its guest can never run there again. A target's guest goes on only with
// one.
type MigrationProof struct {
	By string `json:"by"` // ProofProcess or ProofLibvirt
	// Paused says that the user had paused the guest: it arrives paused and stays so.
	Paused bool `json:"paused,omitempty"`
}

// What a MigrationProof may be.
const (
	// ProofProcess: QEMU is dead, and had given the guest away before.
	ProofProcess = "process"
	// ProofLibvirt: libvirt says that the domain is off because it was migrated.
	ProofLibvirt = "libvirt"
)
