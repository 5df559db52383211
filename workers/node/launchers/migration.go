package launchers

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/launcher/rpc"
)

const (
	// pieceSize is how much of a file one message has, in bytes.
	pieceSize = 64 << 10
	// callTimeout is for calls that launchers answer at once, or after one call to libvirt.
	callTimeout = 15 * time.Second
)

// Departure is how a move has ended at its source: the guest has left, or has stayed, or has ended by itself.
type Departure struct {
	// Left is the proof that the guest can never run here again; nil: it has not left.
	Left *contract.MigrationProof
	// StoppedAt is when the guest was paused, by this node's clock; zero: unknown.
	StoppedAt time.Time
	// Ended reports whether the guest has ended for a reason of its own.
	Ended bool
	// Reason is why it has not left.
	Reason  string
	Aborted bool
	Stats   contract.MigrationStats
	Mode    string
}

// MigrationStatus has what a launcher reports of the last migration that it took part in.
type MigrationStatus struct {
	Migration string // its UID; "": none, and nothing else is set
	// Source reports whether the launcher is the source; else it is the target.
	Source bool
	// UnderWay: the source copies, or the target receives. Phase is of libvirt's job on the source.
	UnderWay bool
	Phase    string
	// Held: the guest is here, complete and paused. Granted: it may resume. Resumed: it runs here.
	Held, Granted, Resumed bool
	// Departure has the end at the source; nil: it has not ended.
	Departure *Departure
}

// DescribeMigration returns what a target needs before it is prepared, except for the node worker's key. It takes as
// long as reading the disks' images. It fails with a RefusedError if the launcher has no guest that it could move.
func (l *Launcher) DescribeMigration(ctx context.Context) (contract.MigrationOffer, error) {
	var none contract.MigrationOffer
	d, err := l.rpc.DescribeMigration(ctx, &rpc.DescribeMigrationRequest{})
	if err != nil {
		return none, l.migrationFailure("describing the guest", err)
	}
	if len(d.GetDisks()) > maxElements {
		return none, &RefusedError{Message: fmt.Sprintf("the guest has %d disks", len(d.GetDisks()))}
	}
	o := contract.MigrationOffer{
		Memory: max(0, d.GetMemoryBytes()), MachineType: sanitize(d.GetMachineType(), maxName),
	}
	for _, disk := range d.GetDisks() {
		o.Disks = append(o.Disks, contract.MigrationDisk{
			Name: sanitize(disk.GetName(), maxName), Target: sanitize(disk.GetTarget(), maxName),
			Size: max(0, disk.GetSizeBytes()), Copied: disk.GetCopied(), DirectIO: disk.GetDirectIo(),
			ImageSHA256: digest(disk.GetImageSha256()),
		})
	}
	for _, f := range d.GetFiles()[:min(len(d.GetFiles()), contract.MostMigrationFiles+1)] {
		o.Files = append(o.Files, contract.MigrationFile{
			Name: sanitize(f.GetName(), maxName), Size: f.GetSize(), SHA256: digest(f.GetSha256()),
		})
	}
	if err := migration.CheckFiles(o.Files); err != nil {
		return none, &RefusedError{Message: err.Error()}
	}
	return o, nil
}

// digest returns a digest, or "" for anything else, so that it can be wrong in no other way than a digest can.
func digest(sum []byte) string {
	const size = 32 // of SHA-256
	return hex.EncodeToString(sum[:min(len(sum), size)])
}

// ReadFile reads a file that DescribeMigration has named.
func (l *Launcher) ReadFile(ctx context.Context, f contract.MigrationFile) (migration.Content, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	doing := "reading " + f.Name
	stream, err := l.rpc.ReadFile(ctx, &rpc.ReadFileRequest{Name: f.Name})
	if err != nil {
		return migration.Content{}, l.migrationFailure(doing, err)
	}
	var data []byte
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return migration.Content{}, l.migrationFailure(doing, err)
		}
		if data = append(data, piece.GetData()...); int64(len(data)) > f.Size {
			break
		}
	}
	c := migration.NewContent(f.Name, data)
	if c.File != f {
		return c, &RefusedError{Message: fmt.Sprintf("the file %s is another one than it was", f.Name)}
	}
	return c, nil
}

// Target describes what a launcher is to receive.
type Target struct {
	Migration  string // UID
	Interfaces []Interface
	// Disks as the source has them; the launcher refuses when its own differ.
	Disks []contract.MigrationDisk
	Files []migration.Content
}

// PrepareTarget makes the launcher ready to receive a guest, and returns the domain as it then is. It fails with a
// RefusedError if the launcher cannot receive this guest. It takes as long as reading the disks' images.
func (l *Launcher) PrepareTarget(ctx context.Context, t Target) (contract.DomainObservation, error) {
	const doing = "preparing to receive a guest"
	stream, err := l.rpc.PrepareTarget(ctx)
	if err != nil {
		return contract.DomainObservation{}, l.migrationFailure(doing, err)
	}
	first := &rpc.Target{Migration: t.Migration, Interfaces: PodInterfaces(t.Interfaces)}
	for _, d := range t.Disks {
		image, err := hex.DecodeString(d.ImageSHA256)
		if err != nil {
			return contract.DomainObservation{},
				&RefusedError{Message: fmt.Sprintf("disk %.128q has no digest of its image", d.Name)}
		}
		first.Disks = append(first.Disks, &rpc.MigrationDisk{
			Name: d.Name, Target: d.Target, SizeBytes: d.Size, Copied: d.Copied, DirectIo: d.DirectIO,
			ImageSha256: image,
		})
	}
	var pieces [][]byte
	for _, f := range t.Files {
		sum, _ := hex.DecodeString(f.SHA256) // it was made of the data
		first.Files = append(first.Files, &rpc.MigrationFile{Name: f.Name, Size: f.Size, Sha256: sum})
		for data := f.Data; len(data) > 0; {
			n := min(len(data), pieceSize)
			pieces, data = append(pieces, data[:n]), data[n:]
		}
	}
	err = stream.Send(&rpc.PrepareTargetRequest{Target: first})
	for i := 0; err == nil && i < len(pieces); i++ {
		err = stream.Send(&rpc.PrepareTargetRequest{Data: pieces[i]})
	}
	if err != nil && !errors.Is(err, io.EOF) { // that is: the answer says why
		return contract.DomainObservation{}, l.migrationFailure(doing, err)
	}
	d, err := stream.CloseAndRecv()
	if err != nil {
		return contract.DomainObservation{}, l.migrationFailure(doing, err)
	}
	return observation(l.uid, d), nil
}

// MoveOptions are the options of a move.
type MoveOptions struct {
	contract.MigrationConfiguration
	// CompletionSeconds limits how long it may take; 0: no limit.
	CompletionSeconds int64
}

// Migrate has the launcher move its guest, or follows what it does already, until that has ended. It fails with a
// RefusedError when the launcher has no guest to move, or moves it elsewhere.
func (l *Launcher) Migrate(
	ctx context.Context, uid string, o MoveOptions, progress func(contract.MigrationProgress),
) (Departure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the launcher has a bound of calls that follow
	const doing = "moving the guest"
	stream, err := l.rpc.Migrate(ctx, &rpc.MigrateRequest{Migration: uid, Options: &rpc.MigrationOptions{
		Bandwidth: o.Bandwidth, CompletionSeconds: o.CompletionSeconds, ProgressSeconds: o.Progress,
		MaxDowntimeMs: o.MaxDowntimeMs, AutoConverge: o.AutoConverge, AllowDisruption: o.Disruption,
		Unsafe: o.Unsafe, Parallel: int32(min(max(0, o.Parallel), migration.MaxStreams)),
	}})
	if err != nil {
		return Departure{}, l.migrationFailure(doing, err)
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			return Departure{}, l.migrationFailure(doing, err)
		}
		if d := departure(e); d != nil {
			return *d, nil
		}
		if p := migrationProgress(e.GetProgress()); p != nil {
			progress(*p)
		}
	}
}

// departure returns the end of a migration; nil while it is under way.
func departure(e *rpc.MigrationEvent) *Departure {
	switch {
	case e.GetLeft() != nil:
		left := e.GetLeft()
		proof := contract.MigrationProof{Paused: left.GetPaused()}
		switch left.GetProof() {
		case rpc.MigrationProof_MIGRATION_PROOF_PROCESS:
			proof.By = contract.ProofProcess
		case rpc.MigrationProof_MIGRATION_PROOF_LIBVIRT:
			proof.By = contract.ProofLibvirt
		case rpc.MigrationProof_MIGRATION_PROOF_UNSPECIFIED:
			return nil // then it has not left
		}
		d := &Departure{Left: &proof, Mode: migrationMode(left.GetStats().GetMode()), Stats: contract.MigrationStats{
			TotalMs: max(0, left.GetStats().GetTotalMs()), Bytes: max(0, left.GetStats().GetBytes()),
			Iterations: max(0, left.GetStats().GetIterations()),
		}}
		if left.GetStoppedAt() > 0 {
			d.StoppedAt = time.UnixMilli(left.GetStoppedAt())
		}
		return d
	case e.GetStayed() != nil:
		return &Departure{Reason: sanitize(e.GetStayed().GetReason(), maxText), Aborted: e.GetStayed().GetAborted()}
	case e.GetEnded() != nil:
		return &Departure{Ended: true, Reason: sanitize(e.GetEnded().GetReason(), maxText)}
	}
	return nil
}

func migrationProgress(p *rpc.MigrationProgress) *contract.MigrationProgress {
	if p == nil {
		return nil
	}
	out := &contract.MigrationProgress{
		UID: sanitize(p.GetMigration(), maxName), Role: migrationRole(p.GetRole()), Mode: migrationMode(p.GetMode()),
		Total: max(0, p.GetTotal()), Processed: max(0, p.GetProcessed()), Remaining: max(0, p.GetRemaining()),
		DirtyRate: max(0, p.GetDirtyRate()), Rate: max(0, p.GetRate()),
		Iteration: int(max(0, p.GetIteration())), DowntimeMs: max(0, p.GetDowntimeMs()),
		Aborting: sanitize(p.GetAborting(), maxText),
	}
	if p.GetSince() > 0 && p.GetSince() < maxTime {
		out.Since = time.UnixMilli(p.GetSince()).UTC()
	}
	return out
}

// maxTime is the end of the year 9999 in milliseconds since 1970: no later time can be written as JSON.
const maxTime = 253402300799000

// migrationRole returns the side of a migration; "": the launcher takes part in none.
func migrationRole(r rpc.MigrationRole) string {
	switch r {
	case rpc.MigrationRole_MIGRATION_ROLE_SOURCE:
		return string(SideSource)
	case rpc.MigrationRole_MIGRATION_ROLE_TARGET:
		return string(SideTarget)
	case rpc.MigrationRole_MIGRATION_ROLE_UNSPECIFIED:
	}
	return ""
}

// migrationMode returns KubeVirt's name of a migration mode.
func migrationMode(m rpc.MigrationMode) string {
	switch m {
	case rpc.MigrationMode_MIGRATION_MODE_PRE_COPY:
		return "PreCopy"
	case rpc.MigrationMode_MIGRATION_MODE_PAUSED:
		return contract.ModePaused
	case rpc.MigrationMode_MIGRATION_MODE_POST_COPY:
		return "PostCopy"
	case rpc.MigrationMode_MIGRATION_MODE_UNSPECIFIED:
	}
	return ""
}

// AbortMigration has the launcher abort. found reports whether there was something to abort.
func (l *Launcher) AbortMigration(ctx context.Context, uid, why string) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := l.rpc.AbortMigration(ctx, &rpc.AbortMigrationRequest{Migration: uid, Why: sanitize(why, maxText)})
	if err != nil {
		return false, l.migrationFailure("aborting a migration", err)
	}
	return r.GetFound(), nil
}

// PauseMigration halts a guest that is moved, so that the rest is copied without it changing. It fails with a
// RefusedError when no such migration is under way.
func (l *Launcher) PauseMigration(ctx context.Context, uid string) error {
	return l.adjust(ctx, &rpc.AdjustMigrationRequest{Migration: uid,
		Change: &rpc.AdjustMigrationRequest_Pause{Pause: true}})
}

// LimitMigration sets how many bytes a second a migration may move. It fails as PauseMigration does.
func (l *Launcher) LimitMigration(ctx context.Context, uid string, bandwidth int64) error {
	return l.adjust(ctx, &rpc.AdjustMigrationRequest{Migration: uid,
		Change: &rpc.AdjustMigrationRequest_Bandwidth{Bandwidth: bandwidth}})
}

func (l *Launcher) adjust(ctx context.Context, r *rpc.AdjustMigrationRequest) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := l.rpc.AdjustMigration(ctx, r); err != nil {
		return l.migrationFailure("changing a migration", err)
	}
	return nil
}

// FinishMigration resumes a guest that was received, and returns the domain as it then is. It fails with a RefusedError
// if there is no such guest here.
func (l *Launcher) FinishMigration(
	ctx context.Context, uid string, proof contract.MigrationProof,
) (contract.DomainObservation, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r := &rpc.FinishMigrationRequest{Migration: uid, Paused: proof.Paused}
	switch proof.By {
	case contract.ProofProcess:
		r.Proof = rpc.MigrationProof_MIGRATION_PROOF_PROCESS
	case contract.ProofLibvirt:
		r.Proof = rpc.MigrationProof_MIGRATION_PROOF_LIBVIRT
	}
	d, err := l.rpc.FinishMigration(ctx, r)
	if err != nil {
		return contract.DomainObservation{}, l.migrationFailure("resuming the guest", err)
	}
	return observation(l.uid, d), nil
}

// WithdrawTarget ends a launcher that waits for a guest, and with it what was received. It fails with a RefusedError
// when the guest may run already.
func (l *Launcher) WithdrawTarget(ctx context.Context, uid string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := l.rpc.WithdrawTarget(ctx, &rpc.WithdrawTargetRequest{Migration: uid}); err != nil {
		return l.migrationFailure("withdrawing a target", err)
	}
	return nil
}

// Domain reads the current domain.
func (l *Launcher) Domain(ctx context.Context) (contract.DomainObservation, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := l.rpc.GetDomain(ctx, &rpc.GetDomainRequest{})
	if err != nil {
		return contract.DomainObservation{}, l.failure("reading the domain", err)
	}
	return observation(l.uid, d), nil
}

// MigrationStatus reads the status of the launcher's migration. It fails with a RefusedError if the launcher cannot
// take part in any.
func (l *Launcher) MigrationStatus(ctx context.Context) (MigrationStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := l.rpc.MigrationStatus(ctx, &rpc.MigrationStatusRequest{})
	if err != nil {
		return MigrationStatus{}, l.migrationFailure("asking for the migration", err)
	}
	return MigrationStatus{
		Migration: sanitize(s.GetMigration(), maxName), UnderWay: s.GetUnderWay(),
		Source: s.GetRole() == rpc.MigrationRole_MIGRATION_ROLE_SOURCE, Phase: sanitize(s.GetPhase(), maxName),
		Held: s.GetHeld(), Granted: s.GetGranted(), Resumed: s.GetResumed(), Departure: departure(s.GetOutcome()),
	}, nil
}

// migrationFailure is failure, and a refusal if the launcher's protocol has no migration.
func (l *Launcher) migrationFailure(doing string, err error) error {
	if status.Code(err) == codes.Unimplemented {
		return &RefusedError{Message: "the launcher was started by an older release, which cannot migrate its guest; " +
			"restart the virtual machine"}
	}
	return l.failure(doing, err)
}
