package migration

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// act does one step. It has written an error into the state already, and returns it for the log.
func (e *migration) act(ctx workflow.Context, d decision) error {
	switch d.Action {
	case entity.ActNext:
		e.state = e.state.next()
		e.setSearchAttributes(ctx)
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
		e.state.recordBegun(workflow.Now(ctx))
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
		return e.startOnNode(ctx, d.Action)
	}
}

// recordResult records a step's result: a failure is kept with a back-off that grows, a success clears it.
func (e *migration) recordResult(ctx workflow.Context, a action, err error) error {
	return entity.RecordResult(ctx, &e.state.Failure, string(a), "FailedStep", err)
}

// read reads the migration, its instance and the instance's pods from the API server.
func (e *migration) read(ctx workflow.Context) error {
	s := &e.state
	in := contract.ReadMigrationInput{Migration: s.Object, VMIName: s.VMI.Name}
	if in.Migration.UID == "" && s.Target.Pod != nil {
		in.Migration.UID = s.Target.Pod.Migration
	}
	s.countRead(workflow.Now(ctx))
	r, err := entity.Call[contract.ReadMigrationResult](ctx, contract.ActivityReadMigration, string(entity.ActRead), in)
	if err == nil {
		s.foldRead(r)
	}
	return e.recordResult(ctx, entity.ActRead, err)
}

func (e *migration) claim(ctx workflow.Context) error {
	s := &e.state
	now := workflow.Now(ctx)
	c := s.claimRequest(now)
	if s.Claim.Stage != c.Stage {
		s.Claim.Tries = 0
	}
	s.Claim.Stage = c.Stage
	s.Claim.Tries++
	s.Claim.AskAt = now.Add(backoff(s.Claim.Tries, claimPause))
	there, err := entity.SignalOther(ctx, contract.VMIID(s.VMI.Namespace, s.VMI.Name), contract.SignalClaim, c)
	// The API server is read for the instance too, though not each time.
	s.Claim.Missing = err == nil && !there && s.Claim.Tries%missingEach == 1
	return e.recordResult(ctx, actClaim, err)
}

func (e *migration) request(ctx workflow.Context, a action) error {
	s := &e.state
	r := s.admissionRequest()
	there, err := entity.SignalOther(ctx, contract.AdmissionID, contract.SignalRequestAdmission, r)
	p := &s.Admission
	p.Asked = true
	p.Done = r.Done && err == nil // a queue that does not run has nothing to free
	p.Returns = p.Returns && err != nil
	p.Tries++
	next := backoff(p.Tries, claimPause)
	if there && p.Sequence > 0 {
		next = placePause // a queue that has answered signals each change
	}
	p.AskAt = workflow.Now(ctx).Add(next)
	return e.recordResult(ctx, a, err)
}

func (e *migration) createPod(ctx workflow.Context) error {
	s := &e.state
	in := contract.CreateTargetPodInput{Migration: s.Object, VMI: s.VMI, Source: s.podObject(&s.Source),
		PreferNode: s.Prefer}
	r, err := entity.Call[contract.CreateTargetPodResult](ctx, contract.ActivityCreateTargetPod,
		string(actCreatePod), in)
	switch {
	case entity.ErrorType(err) == contract.ErrorGone:
		s.ReadAgain()
	case err != nil:
	case r.Refused != "":
		s.ReadAgain()
		err = errors.New(r.Refused)
	case r.Quota != "":
		s.recordQuotaRefusal(r.Quota, workflow.Now(ctx))
	default:
		s.Quota, s.QuotaCount, s.QuotaUntil = "", 0, time.Time{}
		if s.Target.Pod == nil {
			s.Target = End{NodeState: s.nodeOf(r.Pod.UID)}
		}
		s.Target.observe(r.Pod)
	}
	err = e.recordResult(ctx, actCreatePod, err)
	if s.isFinalRefusal(err) {
		s.failBeforeMove(wordNoPod, err)
	}
	return err
}

// isFinalRefusal reports whether another attempt to create the target's pod would end as this one did.
func (s *State) isFinalRefusal(err error) bool {
	switch entity.ErrorType(err) {
	case contract.ErrorInvalid, contract.ErrorConflict,
		contract.ErrorOtherLauncher: // the workload update makes another one, of the release that is then
		return true
	case contract.ErrorForbidden: // what forbids it may be just changing
		tries := forbiddenTries
		if entity.Retryable(err) {
			tries = forbiddenRepeated
		}
		return s.Failure.OfStep(string(actCreatePod)).Count >= tries
	default:
		return false
	}
}

// recordQuotaRefusal returns the admission to migrations that can use it. This one requests it again after a back-off.
func (s *State) recordQuotaRefusal(why string, now time.Time) {
	s.Quota = why
	s.QuotaCount++
	s.QuotaUntil = now.Add(entity.StepBackoff(s.QuotaCount))
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
	s.ReadAgainIf(entity.ErrorType(err) == contract.ErrorGone)
	return e.recordResult(ctx, actConfigure, err)
}

func (e *migration) deletePod(ctx workflow.Context) error {
	s := &e.state
	end := s.leftOver()
	in := contract.DeleteMigrationPodInput{Migration: s.Object, VMI: s.VMI, Pod: s.podObject(end)}
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
		end.Deleted, end.Pod = true, entity.AsGone(end.Pod)
	default:
		end.Deleted, end.Released = true, r.Released
	}
	return e.recordResult(ctx, actDeletePod, err)
}

func (e *migration) removePodFinalizer(ctx workflow.Context) error {
	s := &e.state
	end := s.leftOver()
	in := contract.RemovePodFinalizerInput{Pod: s.podObject(end)}
	if end.Pod.Ended() {
		in.ResourceVersion = end.Pod.ResourceVersion
	}
	r, err := entity.Call[contract.RemovePodFinalizerResult](ctx, contract.ActivityRemovePodFinalizer,
		string(actReleasePod), in)
	end.LookAt = workflow.Now(ctx)
	switch {
	case err != nil:
	case r.Absent:
		end.Released, end.Pod = true, entity.AsGone(end.Pod)
	case r.Refused != "":
		end.Looks++
		if r.Pod != nil {
			end.observe(*r.Pod)
		}
	default:
		end.Released = true
	}
	if err == nil {
		end.LookAt = end.LookAt.Add(backoff(end.Looks+1, endFirst))
	}
	return e.recordResult(ctx, actReleasePod, err)
}

// delete deletes the migration of an instance that is gone, as KubeVirt does.
func (e *migration) delete(ctx workflow.Context) error {
	s := &e.state
	r, err := entity.Call[contract.DeleteMigrationResult](ctx, contract.ActivityDeleteMigration, string(actDelete),
		contract.DeleteMigrationInput{Migration: s.Object, VMIName: s.VMI.Name})
	s.Deleted = err == nil // the activity keeps it where the instance exists again
	if r.Absent {
		s.VMIM = entity.AsGone(s.VMIM)
	}
	return e.recordResult(ctx, actDelete, err)
}

// write patches the migration: its status, where it differs, and its finalizers where they are to change.
func (e *migration) write(ctx workflow.Context, finalizers *[]string) error {
	s := &e.state
	a := entity.ActWrite
	if finalizers != nil {
		a = actRemoveFinalizer
	}
	in := contract.PatchMigrationInput{Migration: s.Object, ResourceVersion: s.VMIM.ResourceVersion,
		Finalizers: finalizers}
	if finalizers != nil {
		in.Stats, in.Owner = s.stats(), s.VMI // one request for all of it
	}
	status := s.status()
	if s.differs() {
		in.Status, in.Events = &status, s.events()
	}
	r, err := entity.Call[contract.PatchMigrationResult](ctx, contract.ActivityPatchMigration,
		string(a)+": "+status.Phase, in)
	if err != nil {
		s.MarkWriteUnknown(in.Status)
		return e.recordResult(ctx, a, err)
	}
	err = entity.FoldAnswer(&s.StatusWrites, entity.Patch[contract.MigrationStatus, contract.MigrationObservation]{
		Kind: "VirtualMachineInstanceMigration", UID: s.Object.UID, Version: in.ResourceVersion, Status: in.Status,
		Seen: &s.VMIM, Replace: s.replaceMigration,
		Observe: func(o contract.MigrationObservation) { s.observeMigration(o, workflow.Now(ctx)) },
		Written: func() {
			s.Announced.Note(in.Events)
			s.StatsWritten = s.StatsWritten || in.Stats != nil
			if finalizers != nil {
				s.VMIM.Finalizers = *finalizers
			}
		},
	}, r)
	e.setSearchAttributes(ctx)
	return e.recordResult(ctx, a, err)
}

// replaceMigration takes over the migration as it was read.
func (s *State) replaceMigration(now *contract.MigrationObservation) {
	s.VMIM = now
	s.ReadAgainIf(s.isBehind(now))
}

// isBehind reports whether the status has a phase or time that this workflow, its only writer, does not know: its
// memory is that of an older copy, or an observation from before the migration's end has started it.
func (s *State) isBehind(now *contract.MigrationObservation) bool {
	known := func(t contract.PhaseTime) bool {
		return slices.ContainsFunc(s.PhaseTimes, func(k contract.PhaseTime) bool {
			return k.Phase == t.Phase && k.Time.Equal(t.Time)
		})
	}
	return now.Final() && !s.Phase.Final() ||
		slices.ContainsFunc(now.PhaseTimes, func(t contract.PhaseTime) bool { return !known(t) })
}

// podObject returns the pod of one end.
func (s *State) podObject(e *End) contract.Object {
	if e.Pod == nil {
		return contract.Object{}
	}
	return contract.Object{Namespace: s.Object.Namespace, Name: e.Pod.Name, UID: e.Pod.UID}
}
