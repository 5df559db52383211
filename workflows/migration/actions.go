package migration

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// act does one step. Its error has been written into the state already; it is returned for the log.
func (e *migration) act(ctx workflow.Context, d decision) error {
	switch d.Action {
	case entity.ActNext:
		e.state = e.state.next()
		e.describe(ctx)
		return nil
	case entity.ActRead:
		return e.read(ctx)
	case actClaim:
		return e.claim(ctx)
	case actRequest, actGiveBack:
		return e.request(ctx, d.Action)
	case actCreatePod:
		return e.createPod(ctx)
	case actConfigure:
		return e.configure(ctx)
	case actHandOff:
		e.state.HandOffAt = workflow.Now(ctx)
		return nil
	case actBegin:
		e.state.begin(workflow.Now(ctx))
		return nil
	case actDeletePod:
		return e.deletePod(ctx)
	case actReleasePod:
		return e.removePodFinalizer(ctx)
	case actDelete:
		return e.delete(ctx)
	case entity.ActWrite:
		return e.write(ctx, nil)
	case actRemoveFinalizer:
		rest := entity.Without(e.state.VMIM.Finalizers, contract.FinalizerMigration)
		return e.write(ctx, &rest)
	default:
		return e.onNode(ctx, d.Action)
	}
}

// settle notes how a step went: a failure is kept with a growing pause, a success clears it.
func (e *migration) settle(ctx workflow.Context, a action, err error) error {
	return entity.Settle(ctx, &e.state.Failure, string(a), "FailedStep", err)
}

// read asks the API server for the migration, its instance and that one's pods.
func (e *migration) read(ctx workflow.Context) error {
	s := &e.state
	in := contract.ReadMigrationInput{Migration: s.Object, VMIName: s.VMI.Name}
	if in.Migration.UID == "" && s.Target.Pod != nil {
		in.Migration.UID = s.Target.Pod.Migration
	}
	s.countRead(workflow.Now(ctx))
	r, err := entity.Call[contract.ReadMigrationResult](ctx, contract.ActivityReadMigration, string(entity.ActRead), in)
	if err == nil {
		s.read(r)
	}
	return e.settle(ctx, entity.ActRead, err)
}

func (e *migration) claim(ctx workflow.Context) error {
	s := &e.state
	now := workflow.Now(ctx)
	c := s.claim(now)
	if s.Claim.Stage != c.Stage {
		s.Claim.Tries = 0
	}
	s.Claim.Stage = c.Stage
	s.Claim.Tries++
	s.Claim.AskAt = now.Add(pause(s.Claim.Tries, claimPause))
	there, err := entity.SignalOther(ctx, contract.VMIID(s.VMI.Namespace, s.VMI.Name), contract.SignalClaim, c)
	// Whether there is such an instance is read, though not each time.
	s.Claim.Missing = err == nil && !there && s.Claim.Tries%missingEach == 1
	return e.settle(ctx, actClaim, err)
}

func (e *migration) request(ctx workflow.Context, a action) error {
	s := &e.state
	r := s.request()
	there, err := entity.SignalOther(ctx, contract.AdmissionID, contract.SignalRequestAdmission, r)
	p := &s.Admission
	p.Asked = true
	p.Done = r.Done && err == nil // where nobody counts, there is nothing to give back
	p.Returns = p.Returns && err != nil
	p.Tries++
	next := pause(p.Tries, claimPause)
	if there && p.Sequence > 0 {
		next = placePause // who has answered tells what changes
	}
	p.AskAt = workflow.Now(ctx).Add(next)
	return e.settle(ctx, a, err)
}

func (e *migration) createPod(ctx workflow.Context) error {
	s := &e.state
	in := contract.CreateTargetPodInput{Migration: s.Object, VMI: s.VMI, Source: s.pod(&s.Source), PreferNode: s.Prefer}
	r, err := entity.Call[contract.CreateTargetPodResult](ctx, contract.ActivityCreateTargetPod,
		string(actCreatePod), in)
	switch {
	case entity.ErrorType(err) == contract.ErrorGone:
		s.Stale = true
	case err != nil:
	case r.Refused != "":
		s.Stale, err = true, errors.New(r.Refused)
	case r.Quota != "":
		s.quotaRefuses(r.Quota, workflow.Now(ctx))
	default:
		s.Quota, s.QuotaCount, s.QuotaUntil = "", 0, time.Time{}
		if s.Target.Pod == nil {
			s.Target = End{NodeState: s.nodeOf(r.Pod.UID)}
		}
		s.Target.see(r.Pod)
	}
	err = e.settle(ctx, actCreatePod, err)
	if s.refusedForGood(err) {
		s.fail(wordNoPod, err)
	}
	return err
}

// refusedForGood says that another attempt to create the target's pod would end as this one did.
func (s *State) refusedForGood(err error) bool {
	switch entity.ErrorType(err) {
	case contract.ErrorInvalid, contract.ErrorConflict,
		contract.ErrorOtherLauncher: // the workload update makes another one, of the release that is then
		return true
	case contract.ErrorForbidden: // somebody may just be changing what forbids it
		return s.Failure.Of(string(actCreatePod)).Count >= forbiddenTries
	default:
		return false
	}
}

// quotaRefuses gives the position back to those who can use it. It is asked for again after a back-off that grows.
func (s *State) quotaRefuses(why string, now time.Time) {
	s.Quota = why
	s.QuotaCount++
	s.QuotaUntil = now.Add(entity.Pause(s.QuotaCount))
	s.Admission = Admission{Sequence: s.Admission.Sequence, Returns: true}
}

func (e *migration) configure(ctx workflow.Context) error {
	s := &e.state
	r, err := entity.Call[contract.ConfigureMigrationResult](ctx, contract.ActivityConfigureMigration,
		string(actConfigure), contract.ConfigureMigrationInput{VMI: s.VMI})
	if err == nil {
		r.Configuration.Parallel = s.VMIM.Connections
		s.Settings = &r
	}
	s.Stale = s.Stale || entity.ErrorType(err) == contract.ErrorGone
	return e.settle(ctx, actConfigure, err)
}

func (e *migration) deletePod(ctx workflow.Context) error {
	s := &e.state
	end := s.leftOver()
	in := contract.DeleteMigrationPodInput{Migration: s.Object, VMI: s.VMI, Pod: s.pod(end)}
	if end.Pod.Ended() {
		in.ResourceVersion = end.Pod.ResourceVersion
	}
	r, err := entity.Call[contract.DeleteMigrationPodResult](ctx, contract.ActivityDeleteMigrationPod,
		string(actDeletePod), in)
	end = s.leftOver()
	switch {
	case err != nil:
	case r.Refused != "":
		err = errors.New(r.Refused)
	case r.Absent:
		end.Deleted, end.Pod = true, entity.Gone(end.Pod)
	default:
		end.Deleted, end.Released = true, r.Released
	}
	return e.settle(ctx, actDeletePod, err)
}

func (e *migration) removePodFinalizer(ctx workflow.Context) error {
	s := &e.state
	end := s.leftOver()
	in := contract.RemovePodFinalizerInput{Pod: s.pod(end)}
	if end.Pod.Ended() {
		in.ResourceVersion = end.Pod.ResourceVersion
	}
	r, err := entity.Call[contract.RemovePodFinalizerResult](ctx, contract.ActivityRemovePodFinalizer,
		string(actReleasePod), in)
	end.LookAt = workflow.Now(ctx)
	switch {
	case err != nil:
	case r.Absent:
		end.Released, end.Pod = true, entity.Gone(end.Pod)
	case r.Refused != "":
		end.Looks++
		if r.Pod != nil {
			end.see(*r.Pod)
		}
	default:
		end.Released = true
	}
	if err == nil {
		end.LookAt = end.LookAt.Add(pause(end.Looks+1, endFirst))
	}
	return e.settle(ctx, actReleasePod, err)
}

// delete deletes the migration of an instance that is gone, as KubeVirt does.
func (e *migration) delete(ctx workflow.Context) error {
	s := &e.state
	r, err := entity.Call[contract.DeleteMigrationResult](ctx, contract.ActivityDeleteMigration, string(actDelete),
		contract.DeleteMigrationInput{Migration: s.Object, VMIName: s.VMI.Name})
	s.Deleted = err == nil // one of an instance that there is again stays
	if r.Absent {
		s.VMIM = entity.Gone(s.VMIM)
	}
	return e.settle(ctx, actDelete, err)
}

// write patches the migration: its status, where it differs, and its finalizers when they are to change.
func (e *migration) write(ctx workflow.Context, finalizers *[]string) error {
	s := &e.state
	a := entity.ActWrite
	if finalizers != nil {
		a = actRemoveFinalizer
	}
	in := contract.PatchMigrationInput{Migration: s.Object, ResourceVersion: s.VMIM.ResourceVersion,
		Finalizers: finalizers}
	if finalizers != nil {
		in.Stats, in.Owner = s.stats(), s.VMI // one request for all
	}
	status := s.status()
	if s.differs() {
		in.Status, in.Events = &status, s.events()
	}
	r, err := entity.Call[contract.PatchMigrationResult](ctx, contract.ActivityPatchMigration,
		string(a)+": "+status.Phase, in)
	if err != nil {
		s.Unanswered(in.Status)
		return e.settle(ctx, a, err)
	}
	err = entity.Wrote(&s.StatusWrites, entity.Patch[contract.MigrationStatus, contract.MigrationObservation]{
		Kind: "VirtualMachineInstanceMigration", UID: s.Object.UID, Version: in.ResourceVersion, Status: in.Status,
		Seen: &s.VMIM, Believe: s.believe,
		Observe: func(o contract.MigrationObservation) { s.observeMigration(o, workflow.Now(ctx)) },
		Written: func() {
			s.Announced.Note(in.Events)
			s.StatsWritten = s.StatsWritten || in.Stats != nil
			if finalizers != nil {
				s.VMIM.Finalizers = *finalizers
			}
		},
	}, r)
	e.describe(ctx)
	return e.settle(ctx, a, err)
}

// believe takes in the migration as it was read.
func (s *State) believe(now *contract.MigrationObservation) {
	s.VMIM = now
	s.Stale = s.Stale || s.behind(now)
}

// behind says that the status tells of a phase of which this entity, the only one that writes it, knows nothing, or
// another time: its memory is that of an older copy, or an observation from before the end has begun it.
func (s *State) behind(now *contract.MigrationObservation) bool {
	known := func(t contract.PhaseTime) bool {
		return slices.ContainsFunc(s.PhaseTimes, func(k contract.PhaseTime) bool {
			return k.Phase == t.Phase && k.Time.Equal(t.Time)
		})
	}
	return now.Final() && !s.Phase.Final() ||
		slices.ContainsFunc(now.PhaseTimes, func(t contract.PhaseTime) bool { return !known(t) })
}

// pod is that of one end.
func (s *State) pod(e *End) contract.Object {
	if e.Pod == nil {
		return contract.Object{}
	}
	return contract.Object{Namespace: s.Object.Namespace, Name: e.Pod.Name, UID: e.Pod.UID}
}
