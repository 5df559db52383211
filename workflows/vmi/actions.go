package vmi

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// act does one step. The error is already in the state; it is returned for the log.
func (e *instance) act(ctx workflow.Context, d decision) error {
	switch d.Action {
	case entity.ActNext:
		e.state = e.state.successor()
		e.setSearchAttributes(ctx)
		return nil
	case entity.ActRead:
		return e.read(ctx)
	case actFindPod:
		return e.findPod(ctx)
	case actCreatePod:
		return e.createPod(ctx)
	case actStartDomain:
		e.startDomain(ctx)
		return nil
	case actCancelStart:
		e.cancelStartDomain()
		return nil
	case actAnswerMigration:
		e.answerMigration(ctx)
		return nil
	case actMarkPod:
		return e.markPod(ctx)
	case actDeletePod:
		return e.deletePod(ctx, d.Object)
	case actDeleteOrphan:
		return e.deleteOrphan(ctx, d.Object)
	case actEndLauncher:
		e.endLauncher(ctx, d.Object)
	case actResize:
		e.resize(ctx)
	case actReadWarning:
		return e.readWarning(ctx)
	case actForceDeletePod:
		return e.forceDeletePod(ctx, d.Object)
	case actRemovePodFinalizer:
		return e.removePodFinalizer(ctx, d.Object)
	case entity.ActWrite:
		return e.write(ctx, nil)
	case actRemoveFinalizers:
		rest := e.state.otherFinalizers()
		return e.write(ctx, &rest)
	default: // no step
	}
	return nil
}

// recordResult records the result of a step: a failure is kept with a growing back-off, a success clears it.
func (e *instance) recordResult(ctx workflow.Context, a action, err error) error {
	s := &e.state
	err = entity.RecordResult(ctx, &s.Failure, string(a), failureReason(a), err)
	if r := s.OpenRecord(); r != nil && err != nil {
		r.Attempts++
		s.Record(*r)
	}
	return err
}

// read reads the VMI and its pods from the API server.
func (e *instance) read(ctx workflow.Context) error {
	in := contract.ReadVMIInput{VMI: e.state.owner(), Known: e.state.knownPods(e.state.Object.Namespace)}
	r, err := entity.Call[contract.ReadVMIResult](ctx, contract.ActivityReadVMI, string(entity.ActRead), in)
	if err == nil {
		e.state.applyRead(r)
	}
	if e.state.VMI == nil {
		e.state.FindPodAt = workflow.Now(ctx).Add(findPodAfter)
	}
	return e.recordResult(ctx, entity.ActRead, err)
}

func (e *instance) findPod(ctx workflow.Context) error {
	in := contract.FindPodInput{VMI: e.state.owner(), Known: e.state.knownPods(e.state.Object.Namespace)}
	r, err := entity.Call[contract.FindPodResult](ctx, contract.ActivityFindPod, string(actFindPod), in)
	if err == nil {
		e.state.applyFoundPods(r.Pods())
	}
	return e.recordResult(ctx, actFindPod, err)
}

func (e *instance) createPod(ctx workflow.Context) error {
	e.state.PVCsObserved = false
	r, err := entity.Call[contract.CreatePodResult](ctx, contract.ActivityCreatePod, string(actCreatePod),
		contract.CreatePodInput{VMI: e.state.Object})
	if entity.ErrorType(err) == contract.ErrorGone {
		e.noteDeletion(ctx)
		return nil
	}
	if err == nil {
		e.state.noteAttempt(r, workflow.Now(ctx))
		e.state.forgetDiscarded(r.Discarded)
	}
	switch {
	case err != nil, r.Awaits != nil:
	case r.Refused != "":
		err = e.state.adoptRead(r.VMI, r.Refused)
	default:
		e.state.observePod(r.Pod)
		e.state.chooseCurrent(e.state.statusNode(), true) // it is the only pod
		e.state.setMigratable(r.Migratable)
	}
	return e.recordResult(ctx, actCreatePod, err)
}

// startDomain does not block the loop: the node worker may be slow, and a deletion must be handled meanwhile.
func (e *instance) startDomain(ctx workflow.Context) {
	s := &e.state
	s.Starting, s.StartCancelled = true, false
	pod := *s.Pod
	in := contract.StartDomainInput{VMI: s.Object, Pod: e.podObject(), Booted: s.Phase == PhaseRunning}
	o := entity.NodeOptions(pod.NodeName)
	o.Summary = "start the domain in " + pod.Name + " on " + pod.NodeName
	actx, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, o))
	e.cancelStart = cancel
	workflow.Go(actx, func(ctx workflow.Context) {
		var r contract.StartDomainResult
		err := workflow.ExecuteActivity(ctx, contract.ActivityStartDomain, in).Get(ctx, &r)
		s := &e.state
		s.Starting, s.StartCancelled = false, false
		e.cancelStart = nil
		e.loop.Wake()
		if err == nil {
			s.observeDomain(r.Domain)
			_ = e.recordResult(ctx, actStartDomain, nil)
			return
		}
		if ctx.Err() != nil {
			return
		}
		s.StartRefused = entity.ErrorType(err) == contract.ErrorStartFailed
		_ = e.recordResult(ctx, actStartDomain, explainTimeout(err, pod.NodeName))
	})
}

// cancelStartDomain stops waiting for the node worker, which may be gone together with the pod.
func (e *instance) cancelStartDomain() {
	e.state.StartCancelled = e.state.Starting
	if e.cancelStart != nil {
		e.cancelStart()
	}
}

func (e *instance) markPod(ctx workflow.Context) error {
	pod, paused := e.podObject(), e.state.isGuestPaused(e.state.isMoving())
	err := entity.Do(ctx, contract.ActivityMarkPod, string(actMarkPod),
		contract.MarkPodInput{Pod: pod, Paused: paused})
	marked := err == nil || entity.ErrorType(err) == contract.ErrorGone
	if marked {
		err = nil
	}
	if l := e.state.launcher(pod.UID); l != nil {
		if marked {
			l.PodMarked, l.PodPaused = true, paused
		}
		l.MarkUnknown = !marked
	}
	return e.recordResult(ctx, actMarkPod, err)
}

func (e *instance) deletePod(ctx workflow.Context, uid string) error {
	l := e.state.launcher(uid)
	in := contract.DeletePodInput{VMI: e.state.Object, Pod: e.podOf(l), Grace: l.graceOverride(e.state.VMI)}
	if l == &e.state.Launcher {
		e.cancelStartDomain()
		in.Events = e.state.shutdownEvents()
	}
	r, err := entity.Call[contract.DeletePodResult](ctx, contract.ActivityDeletePod, string(actDeletePod), in)
	if err == nil && r.Refused != "" {
		err = e.state.adoptRead(r.VMI, r.Refused)
	} else if err == nil {
		e.state.Announced.Note(in.Events)
		if l := e.state.launcher(uid); l != nil {
			l.PodDeletedEarly = l.PodDeletedEarly || !l.Pod.ComputeRunning
			l.GraceShortened = l.GraceShortened || in.Grace != nil && l.Pod.DeletionTimestamp != nil &&
				e.state.HasChange(contract.ChangeAfterFirst)
			l.PodDeleted, l.PodGrace = true, in.Grace
			l.markGone(r.Absent)
		}
	}
	return e.recordResult(ctx, actDeletePod, err)
}

// endLauncher does not block the loop. The kubelet normally kills the launcher in time, so a failure is only logged.
// Where the guest's grace period was shortened, the kubelet would be late: the call is repeated.
func (e *instance) endLauncher(ctx workflow.Context, uid string) {
	l := e.state.launcher(uid)
	l.EndSent = true
	if l.GraceShortened && e.state.VMI != nil {
		grace := int64(contract.Grace(e.state.VMI.GracePeriodSeconds).Seconds())
		l.EndGrace = &grace
	}
	pod := *l.Pod
	o := entity.NodeOptions(pod.NodeName)
	o.ScheduleToCloseTimeout = contract.OperationLimit
	o.Summary = entity.Summary("end the launcher in " + pod.Name + " on " + pod.NodeName)
	in := contract.OperateDomainInput{VMI: e.state.Object, Pod: e.podOf(l), Operation: contract.OperationEnd,
		Grace: l.EndGrace}
	e.callLauncher(ctx, o, in, func(ctx workflow.Context, err error) {
		if err == nil {
			return
		}
		workflow.GetLogger(ctx).Warn("failed to end the launcher", "error", err)
		if l := e.state.launcher(uid); l != nil && in.Grace != nil {
			l.EndGrace = nil
			_ = e.recordResult(ctx, actEndLauncher, explainTimeout(err, pod.NodeName))
		}
	})
}

// callLauncher runs an operation in a launcher without blocking the loop.
func (e *instance) callLauncher(
	ctx workflow.Context, o workflow.ActivityOptions, in contract.OperateDomainInput,
	answered func(workflow.Context, error),
) {
	e.pendingCalls++
	workflow.Go(workflow.WithActivityOptions(ctx, o), func(ctx workflow.Context) {
		err := workflow.ExecuteActivity(ctx, contract.ActivityOperateDomain, in).Get(ctx, nil)
		e.pendingCalls--
		answered(ctx, err)
		e.loop.Wake()
	})
}

// resize has the launcher report the new disk sizes to the guest.
func (e *instance) resize(ctx workflow.Context) {
	s := &e.state
	s.Grown = false
	pod := *s.Pod
	o := entity.NodeOptions(pod.NodeName)
	o.ScheduleToCloseTimeout = contract.OperationLimit
	o.Summary = entity.Summary(string(actResize) + ", in " + pod.Name + " on " + pod.NodeName)
	in := contract.OperateDomainInput{VMI: s.Object, Pod: e.podObject(), Operation: contract.OperationResize,
		Claims: s.statusPVCs()}
	e.callLauncher(ctx, o, in, func(ctx workflow.Context, err error) {
		_ = e.recordResult(ctx, actResize, explainTimeout(s.noteResize(pod.UID, s.Migration != nil, err), pod.NodeName))
	})
}

// forceDeletePod deletes a pod without grace period on a node that is known to be off: no kubelet there will end it.
func (e *instance) forceDeletePod(ctx workflow.Context, uid string) error {
	l := e.state.launcher(uid)
	if l == &e.state.Launcher {
		e.cancelStartDomain()
	}
	none := int64(0)
	in := contract.DeletePodInput{VMI: e.state.owner(), Pod: e.podOf(l), Grace: &none, Fence: l.fence()}
	r, err := entity.Call[contract.DeletePodResult](ctx, contract.ActivityDeletePod, string(actForceDeletePod), in)
	switch {
	case err != nil:
	case r.Refused != "" && r.Node == nil: // by a worker of another release
		err = errors.New(r.Refused)
	case r.Refused != "":
		e.state.unfence(uid, r.Node)
	default:
		if l := e.state.launcher(uid); l != nil {
			l.forceDeleted(workflow.Now(ctx))
			l.markGone(r.Absent)
		}
	}
	return e.recordResult(ctx, actForceDeletePod, err)
}

func (e *instance) removePodFinalizer(ctx workflow.Context, uid string) error {
	l := e.state.launcher(uid)
	in := contract.RemovePodFinalizerInput{
		Pod: e.podOf(l), ResourceVersion: l.Pod.ResourceVersion, Fence: l.fence(),
	}
	r, err := entity.Call[contract.RemovePodFinalizerResult](ctx, contract.ActivityRemovePodFinalizer,
		string(actRemovePodFinalizer), in)
	switch {
	case err != nil:
	case r.Node != nil:
		e.state.unfence(uid, r.Node)
	case r.Refused != "":
		err = e.state.adoptReadPod(r.Pod, r.Refused)
	default:
		if l := e.state.launcher(uid); l != nil {
			l.FinalizerRemoved = true
			l.markGone(r.Absent)
		}
	}
	return e.recordResult(ctx, actRemovePodFinalizer, err)
}

// write patches the VMI: its status, its node label and, where they change, its finalizers.
func (e *instance) write(ctx workflow.Context, finalizers *[]string) error {
	s := &e.state
	a := entity.ActWrite
	if finalizers != nil {
		a = actRemoveFinalizers
	}
	status := s.status()
	events, moves := s.newEvents(), s.migrationEvents()
	in := contract.PatchVMIInput{
		VMI: s.Object, ResourceVersion: s.VMI.ResourceVersion, Status: &status, LeftPods: s.vanishedPods(status),
		TargetLabel: s.targetLabel(s.OutcomeUnknown), Evacuated: s.isEvacuated(status.NodeName), Finalizers: finalizers,
		Events: slices.Concat(events, moves),
	}
	if finalizers != nil {
		in.Known = s.knownPods(s.Object.Namespace)
	}
	in.Eviction = s.evictionMark(status)
	s.noteMark(in.Eviction, status, false)
	if status.NodeName != "" && (s.Written == nil || s.OutcomeUnknown || s.Written.NodeName != status.NodeName) {
		in.NodeLabel = &status.NodeName
	}
	r, err := entity.Call[contract.PatchVMIResult](ctx, contract.ActivityPatchVMI, string(a)+": "+status.Phase, in)
	if err != nil {
		s.MarkWriteUnknown(&status)
		return e.recordResult(ctx, a, err)
	}
	if r.Refused != "" {
		return e.recordResult(ctx, a, s.adoptReadPod(r.Pod, r.Refused))
	}
	err = entity.FoldAnswer(&s.StatusWrites, entity.Patch[contract.VMIStatus, contract.VMIObservation]{
		Kind: "VirtualMachineInstance", UID: s.Object.UID, Version: in.ResourceVersion, Status: &status,
		Seen: &s.VMI, Replace: s.replaceVMI, Observe: s.observeVMI,
		Written: func() {
			s.Announced.Note(events)
			s.noteMark(in.Eviction, status, true)
			s.markRecorded(moves)
			s.setMigratable(r.Migratable)
			if finalizers != nil {
				s.VMI.Finalizers = *finalizers
			}
		},
	}, r.Patched)
	e.setSearchAttributes(ctx)
	return e.recordResult(ctx, a, err)
}

// replaceVMI replaces the observed VMI by the one that an activity has read.
func (s *State) replaceVMI(now *contract.VMIObservation) {
	s.VMI = now
	s.ReadAgainIf(s.isBehind(now))
}

// isBehind reports whether the VMI's status has a phase, node or migration that this entity does not know. Only this
// entity writes the status, so its state is that of an older copy.
func (s *State) isBehind(now *contract.VMIObservation) bool {
	if s.Written != nil && now.NodeName != "" && now.NodeName != s.Written.NodeName {
		return true
	}
	if m, known := now.Migration, s.migrationState(); m != nil &&
		(known == nil || known.MigrationUID != m.MigrationUID || m.Ended() && !known.Ended()) {
		return true
	}
	for _, t := range now.PhaseTimes {
		if !slices.ContainsFunc(s.PhaseTimes, func(known contract.PhaseTime) bool { return known.Phase == t.Phase }) {
			return true
		}
	}
	return false
}

// noteDeletion marks the VMI as being deleted. It is gone, or its deletion has not been observed yet. The patch that
// removes the finalizers finds out which: its finalizers must not stay behind.
func (e *instance) noteDeletion(ctx workflow.Context) {
	if e.state.isDeleting() {
		return
	}
	now := workflow.Now(ctx)
	last := *e.state.VMI
	last.DeletionTimestamp = &now
	e.state.VMI = &last
}

// owner returns the current VMI, or the one that the current pod belongs to.
func (s *State) owner() contract.Object {
	o := s.Object
	if o.UID == "" && s.Pod != nil {
		o.UID = s.Pod.VMIUID
	}
	return o
}

// shutdownEvents returns the events to record with the deletion of a running guest's pod.
func (s *State) shutdownEvents() []contract.Event {
	if s.Phase != PhaseRunning || s.VMI.GracePeriodSeconds != nil && *s.VMI.GracePeriodSeconds == 0 {
		return nil
	}
	return s.Announced.Missing(
		contract.Event{Type: "Normal", Reason: "ShuttingDown", Message: "Signaled Graceful Shutdown"})
}

// podOf returns a launcher's pod.
func (e *instance) podOf(l *Launcher) contract.Object { return l.object(e.state.Object.Namespace) }

// podObject returns the current pod.
func (e *instance) podObject() contract.Object { return e.podOf(&e.state.Launcher) }
