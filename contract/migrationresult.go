package contract

import (
	"fmt"
	"time"
)

// MigrationProgress is the progress of a guest's move, as libvirt counts it. Sizes are in bytes, rates in bytes a
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
	Aborting   string    `json:"aborting,omitempty"` // why the launcher aborts it; "": it does not
}

// Copied returns how much of the guest is at its target, in percent. It falls when the guest changes what was copied.
func (p MigrationProgress) Copied() int64 {
	if p.Total <= 0 {
		return 0
	}
	const percent = 100
	return int64(float64(p.Total-min(max(0, p.Remaining), p.Total)) / float64(p.Total) * percent)
}

// Text returns the progress as a phrase.
func (p MigrationProgress) Text() string {
	if p.Total <= 0 {
		return "the copy begins"
	}
	text := fmt.Sprintf("%d %% of %s copied, %s remaining, %s processed; iteration %d at %s/s, dirty rate %s/s, "+
		"expected downtime %d ms", p.Copied(), size(p.Total), size(p.Remaining), size(p.Processed), p.Iteration,
		size(p.Rate), size(p.DirtyRate), p.DowntimeMs)
	if p.Mode == ModePaused {
		text += "; the guest is paused until the rest is copied"
	}
	return text
}

// size returns a number of bytes in words.
func size(n int64) string {
	const mi, gi = 1 << 20, 1 << 30
	if n >= gi {
		return fmt.Sprintf("%.1f GiB", float64(n)/gi)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/mi)
}

// ModePaused is KubeVirt's name for a migration that has paused its guest so that the rest is copied.
const ModePaused = "Paused"

// MigrationSummary is the result of a migration's workflow.
type MigrationSummary struct {
	// Phase is the last one; "": the object was gone before it was observed.
	Phase  string `json:"phase,omitempty"`
	Reason string `json:"reason,omitempty"` // why it failed
	// SourceNode and TargetNode are the two ends.
	SourceNode string         `json:"sourceNode,omitempty"`
	TargetNode string         `json:"targetNode,omitempty"`
	Mode       string         `json:"mode,omitempty"`
	Stats      MigrationStats `json:"stats,omitzero"`
}

// MigrationStats has a move's measures, when it has ended.
type MigrationStats struct {
	TotalMs    int64 `json:"totalMs,omitempty"`
	DowntimeMs int64 `json:"downtimeMs,omitempty"`
	Bytes      int64 `json:"bytes,omitempty"`
	Iterations int64 `json:"iterations,omitempty"`
}

// MigrationResult is the outcome of a move, as the source's node knows it.
type MigrationResult string

// Results of a move.
const (
	// ResultMoved means that the guest runs at the target.
	ResultMoved MigrationResult = "moved"
	// ResultSourceOff means that the guest has left the source for good, and may or may not have resumed at the target.
	ResultSourceOff MigrationResult = "source-off"
	// ResultStayed means that the guest is at the source.
	ResultStayed MigrationResult = "stayed"
	// ResultGuestEnded means that the guest has ended at the source during the move, for a reason of its own.
	ResultGuestEnded MigrationResult = "guest-ended"
	// ResultLost means that the source's node does not know; both ends have to be inspected.
	ResultLost MigrationResult = "lost"
)

// MigrationOutcome has the result of a move, and why.
type MigrationOutcome struct {
	Result  MigrationResult `json:"result"`
	Reason  string          `json:"reason,omitempty"`
	Aborted bool            `json:"aborted,omitempty"` // on request
	Stats   MigrationStats  `json:"stats,omitzero"`
	Mode    string          `json:"mode,omitempty"`
	// Proof is the source's proof that the guest can never run there again; nil: it has given none.
	Proof *MigrationProof `json:"proof,omitempty"`
	// Target is the domain when it resumed there; nil unless the result is ResultMoved.
	Target *DomainObservation `json:"target,omitempty"`
}

// MigrationProof is the reason why a guest can never run at its source again. A target resumes its guest only with one.
type MigrationProof struct {
	By string `json:"by"` // ProofProcess or ProofLibvirt
	// Paused is set when the user had paused the guest: it arrives paused and stays so.
	Paused bool `json:"paused,omitempty"`
}

// Kinds of MigrationProof.
const (
	// ProofProcess means that QEMU is dead, and had handed the guest over before.
	ProofProcess = "process"
	// ProofLibvirt means that libvirt reports the domain as off because it was migrated.
	ProofLibvirt = "libvirt"
)
