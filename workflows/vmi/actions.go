package vmi

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// act does one step. Its error has been written into the state already; it is returned for the log.
func (e *instance) act(ctx workflow.Context, d decision) error {
	switch d.Action {
	case entity.ActNext:
		e.state = e.state.next()
		e.describe(ctx)
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
		e.cancelStarting()
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
	case actForceDeletePod:
		return e.forceDeletePod(ctx, d.Object)
	case actRemovePodFinalizer:
		return e.removePodFinalizer(ctx, d.Object)
	case entity.ActWrite:
		return e.write(ctx, nil)
	case actRemoveFinalizers:
		rest := e.state.otherFinalizers()
		return e.write(ctx, &rest)
	default: // nothing is to be done
	}
	return nil
}

// settle notes how a step went: a failure is kept with a growing pause, a success clears it.
func (e *instance) settle(ctx workflow.Context, a action, err error) error {
	s := &e.state
	err = entity.Settle(ctx, &s.Failure, string(a), failureReason(a), err)
	if r := s.Going(); r != nil && err != nil {
		r.Attempts++
		s.Record(*r)
	}
	return err
}

// read asks the API server for the VMI and its pods.
func (e *instance) read(ctx workflow.Context) error {
	in := contract.ReadVMIInput{VMI: e.state.owner(), Known: e.state.known()}
	r, err := entity.Call[contract.ReadVMIResult](ctx, contract.ActivityReadVMI, string(entity.ActRead), in)
	if err == nil {
		e.state.read(r)
	}
	if e.state.VMI == nil {
		e.state.LookAt = workflow.Now(ctx).Add(lookAgain)
	}
	return e.settle(ctx, entity.ActRead, err)
}

func (e *instance) findPod(ctx workflow.Context) error {
	in := contract.FindPodInput{VMI: e.state.owner(), Known: e.state.known()}
	r, err := entity.Call[contract.FindPodResult](ctx, contract.ActivityFindPod, string(actFindPod), in)
	if err == nil {
		e.state.found(r.Pods())
	}
	return e.settle(ctx, actFindPod, err)
}

func (e *instance) createPod(ctx workflow.Context) error {
	e.state.ClaimsHeard = false
	r, err := entity.Call[contract.CreatePodResult](ctx, contract.ActivityCreatePod, string(actCreatePod),
		contract.CreatePodInput{VMI: e.state.Object})
	if entity.ErrorType(err) == contract.ErrorGone {
		e.leaving(ctx)
		return nil
	}
	if err == nil {
		e.state.attempted(r, workflow.Now(ctx))
	}
	switch {
	case err != nil, r.Awaits != nil:
	case r.Refused != "":
		err = e.state.correct(r.VMI, r.Refused)
	default:
		e.state.observePod(r.Pod)
		e.state.choose(true) // it is the first
		e.state.judge(r.Migratable)
	}
	return e.settle(ctx, actCreatePod, err)
}

// startDomain leaves the loop free: the node's worker may take its time, and a deletion must get through meanwhile.
func (e *instance) startDomain(ctx workflow.Context) {
	s := &e.state
	s.Starting, s.StartCancelled = true, false
	pod := *s.Pod
	in := contract.StartDomainInput{VMI: s.Object, Pod: e.pod(), Booted: s.Phase == PhaseRunning}
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
			_ = e.settle(ctx, actStartDomain, nil)
			return
		}
		if ctx.Err() != nil {
			return
		}
		s.StartRefused = entity.ErrorType(err) == contract.ErrorStartFailed
		_ = e.settle(ctx, actStartDomain, unanswered(err, pod.NodeName))
	})
}

// cancelStarting ends the wait for the node's worker, which may be as gone as the pod.
func (e *instance) cancelStarting() {
	e.state.StartCancelled = e.state.Starting
	if e.cancelStart != nil {
		e.cancelStart()
	}
}

func (e *instance) markPod(ctx workflow.Context) error {
	pod, paused := e.pod(), e.state.halted()
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
	return e.settle(ctx, actMarkPod, err)
}

func (e *instance) deletePod(ctx workflow.Context, uid string) error {
	l := e.state.launcher(uid)
	in := contract.DeletePodInput{VMI: e.state.Object, Pod: e.state.podOf(l), Grace: l.graceOverride(e.state.VMI)}
	if l == &e.state.Launcher {
		e.cancelStarting()
		in.Events = e.state.farewell()
	}
	r, err := entity.Call[contract.DeletePodResult](ctx, contract.ActivityDeletePod, string(actDeletePod), in)
	if err == nil && r.Refused != "" {
		err = e.state.correct(r.VMI, r.Refused)
	} else if err == nil {
		e.state.Announced.Note(in.Events)
		if l := e.state.launcher(uid); l != nil {
			l.PodDeletedEarly = l.PodDeletedEarly || !l.Pod.ComputeRunning
			l.PodDeleted, l.PodGrace = true, in.Grace
			l.absent(r.Absent)
		}
	}
	return e.settle(ctx, actDeletePod, err)
}

// endLauncher leaves the loop free, and whatever comes of it changes nothing: the launcher ends, or the kubelet kills
// it.
func (e *instance) endLauncher(ctx workflow.Context, uid string) {
	l := e.state.launcher(uid)
	l.EndSent = true
	pod := *l.Pod
	o := entity.NodeOptions(pod.NodeName)
	o.ScheduleToCloseTimeout = contract.OperationLimit
	o.Summary = entity.Summary("tell the launcher in " + pod.Name + " on " + pod.NodeName + " to end")
	in := contract.OperateDomainInput{VMI: e.state.Object, Pod: e.state.podOf(l), Operation: contract.OperationEnd}
	e.ask(ctx, o, in, func(ctx workflow.Context, err error) {
		if err != nil {
			workflow.GetLogger(ctx).Warn("the launcher was not told to end", "error", err)
		}
	})
}

// ask has a launcher do something that the loop does not wait for.
func (e *instance) ask(
	ctx workflow.Context, o workflow.ActivityOptions, in contract.OperateDomainInput,
	answered func(workflow.Context, error),
) {
	e.asked++
	workflow.Go(workflow.WithActivityOptions(ctx, o), func(ctx workflow.Context) {
		err := workflow.ExecuteActivity(ctx, contract.ActivityOperateDomain, in).Get(ctx, nil)
		e.asked--
		answered(ctx, err)
		e.loop.Wake()
	})
}

// resize lets the guest see that its disks have grown.
func (e *instance) resize(ctx workflow.Context) {
	s := &e.state
	s.Grown = false
	pod := *s.Pod
	o := entity.NodeOptions(pod.NodeName)
	o.ScheduleToCloseTimeout = contract.OperationLimit
	o.Summary = entity.Summary(string(actResize) + ", in " + pod.Name + " on " + pod.NodeName)
	in := contract.OperateDomainInput{VMI: s.Object, Pod: e.pod(), Operation: contract.OperationResize,
		Claims: s.shownClaims()}
	e.ask(ctx, o, in, func(ctx workflow.Context, err error) {
		_ = e.settle(ctx, actResize, unanswered(s.resized(pod.UID, err), pod.NodeName))
	})
}

// forceDeletePod deletes a pod without grace on a node that is known to be off: no kubelet there will end it.
func (e *instance) forceDeletePod(ctx workflow.Context, uid string) error {
	l := e.state.launcher(uid)
	if l == &e.state.Launcher {
		e.cancelStarting()
	}
	none := int64(0)
	in := contract.DeletePodInput{VMI: e.state.owner(), Pod: e.state.podOf(l), Grace: &none, Fence: l.fence()}
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
			l.absent(r.Absent)
		}
	}
	return e.settle(ctx, actForceDeletePod, err)
}

func (e *instance) removePodFinalizer(ctx workflow.Context, uid string) error {
	l := e.state.launcher(uid)
	in := contract.RemovePodFinalizerInput{
		Pod: e.state.podOf(l), ResourceVersion: l.Pod.ResourceVersion, Fence: l.fence(),
	}
	r, err := entity.Call[contract.RemovePodFinalizerResult](ctx, contract.ActivityRemovePodFinalizer,
		string(actRemovePodFinalizer), in)
	switch {
	case err != nil:
	case r.Node != nil:
		e.state.unfence(uid, r.Node)
	case r.Refused != "":
		err = e.state.correctPod(r.Pod, r.Refused)
	default:
		if l := e.state.launcher(uid); l != nil {
			l.FinalizerRemoved = true
			l.absent(r.Absent)
		}
	}
	return e.settle(ctx, actRemovePodFinalizer, err)
}

// write patches the VMI: its status, its node label, and its finalizers when they are to change.
func (e *instance) write(ctx workflow.Context, finalizers *[]string) error {
	s := &e.state
	a := entity.ActWrite
	if finalizers != nil {
		a = actRemoveFinalizers
	}
	status := s.status()
	events, moves := s.news(), s.moveEvents()
	in := contract.PatchVMIInput{
		VMI: s.Object, ResourceVersion: s.VMI.ResourceVersion, Status: &status, LeftPods: s.leftPods(status),
		TargetLabel: s.targetLabel(), Evacuated: s.evacuated(status), Finalizers: finalizers,
		Events: slices.Concat(events, moves),
	}
	if finalizers != nil {
		in.Known = s.known()
	}
	if status.NodeName != "" && (s.Written == nil || s.OutcomeUnknown || s.Written.NodeName != status.NodeName) {
		in.NodeLabel = &status.NodeName
	}
	r, err := entity.Call[contract.PatchVMIResult](ctx, contract.ActivityPatchVMI, string(a)+": "+status.Phase, in)
	if err != nil {
		s.Unanswered(&status)
		return e.settle(ctx, a, err)
	}
	if r.Refused != "" {
		return e.settle(ctx, a, s.correctPod(r.Pod, r.Refused))
	}
	err = entity.Wrote(&s.StatusWrites, entity.Patch[contract.VMIStatus, contract.VMIObservation]{
		Kind: "VirtualMachineInstance", UID: s.Object.UID, Version: in.ResourceVersion, Status: &status,
		Seen: &s.VMI, Believe: s.believe, Observe: s.observeVMI,
		Written: func() {
			s.Announced.Note(events)
			s.recorded(moves)
			s.judge(r.Migratable)
			if finalizers != nil {
				s.VMI.Finalizers = *finalizers
			}
		},
	}, r.Patched)
	e.describe(ctx)
	return e.settle(ctx, a, err)
}

// believe takes in the VMI as it was read.
func (s *State) believe(now *contract.VMIObservation) {
	s.VMI = now
	s.Stale = s.Stale || s.behind(now)
}

// behind says that the status tells of a phase, a node or a migration of which this entity, the only one that writes
// it, knows nothing: its memory is that of an older copy.
func (s *State) behind(now *contract.VMIObservation) bool {
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

// leaving notes that the VMI is gone, or being deleted before that was observed. Which of the two, the patch that
// removes its finalizers finds out: its finalizers must not stay behind.
func (e *instance) leaving(ctx workflow.Context) {
	if e.state.deleting() {
		return
	}
	now := workflow.Now(ctx)
	last := *e.state.VMI
	last.DeletionTimestamp = &now
	e.state.VMI = &last
}

// owner is the VMI in hand, or the one that the pod in hand says it is of.
func (s *State) owner() contract.Object {
	o := s.Object
	if o.UID == "" && s.Pod != nil {
		o.UID = s.Pod.VMIUID
	}
	return o
}

// farewell are the events that go with the deletion of the pod of a running guest.
func (s *State) farewell() []contract.Event {
	if s.Phase != PhaseRunning || s.VMI.GracePeriodSeconds != nil && *s.VMI.GracePeriodSeconds == 0 {
		return nil
	}
	return s.Announced.Missing(
		contract.Event{Type: "Normal", Reason: "ShuttingDown", Message: "Signaled Graceful Shutdown"})
}

// pod is the one in hand.
func (e *instance) pod() contract.Object { return e.state.podOf(&e.state.Launcher) }
