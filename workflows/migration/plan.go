package migration

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

// settleTime is how long the entity waits before it writes a status that differs: a pod that starts at once and a guest
// that is moved in a second then need two or three writes. status.phaseTransitionTimestamps has each phase.
const settleTime = time.Second

// orphanTime is how long an entity that knows only a pod waits for the first observation of its object.
const orphanTime = 10 * time.Second

// keyTime is how long the key of an offer is valid, and keySpare how much of that has to remain when it is used.
const (
	keyTime  = 48 * time.Hour
	keySpare = 25 * time.Hour
)

// Both ends are inspected again after lookFirst, doubled each time, or after lookNews when there are observations.
const (
	lookFirst = 2 * time.Second
	lookNews  = time.Second
)

// The API server is read at once readsAtOnce times in a row, then after readPause, doubled each time.
const (
	readsAtOnce = 3
	readPause   = time.Second
)

type (
	action   = entity.Action
	decision = entity.Decision
)

// Steps. Carried states have their names, so these stay.
const (
	actClaim           = action("tell the instance")
	actRequest         = action("ask to be admitted")
	actGiveBack        = action("give back the place")
	actCreatePod       = action("create the target's pod")
	actConfigure       = action("find out how the guest is to be moved")
	actHandOff         = action("hand off")
	actOffer           = action("ask the source for its offer")
	actPrepare         = action("prepare the target")
	actBegin           = action("begin to move the guest")
	actMigrate         = action("move the guest")
	actAdjust          = action("pause the guest until the rest is copied")
	actAbort           = action("abort the move")
	actFinish          = action("let the guest go on at the target")
	actInspect         = action("look at both ends")
	actWithdraw        = action("withdraw the target")
	actDeletePod       = action("delete the pod that is left over")
	actReleasePod      = action("remove the finalizer of the pod that is left over")
	actDelete          = action("delete the migration of an instance that is gone")
	actRemoveFinalizer = action("remove the finalizer of the migration")
)

// decide is the planner: pure, and total.
func (s *State) decide(now time.Time) decision {
	var status func(time.Time) decision
	if s.VMIM != nil && !s.Stale && !s.Over {
		status = s.decideStatus // it shows the failure
	}
	d := s.Failure.WithBackoff(s.choose(now), now, status)
	if s.VMIM == nil || s.Over {
		return d
	}
	return d.WakeBy(s.nextWake(now)).Or(s.waiting())
}

// choose returns the most urgent step.
func (s *State) choose(now time.Time) decision {
	switch {
	case s.VMIM == nil:
		return s.decideOrphan(now)
	case s.Over && s.Claim.Stage == contract.StageClaim:
		return decision{Action: actClaim, Why: "it has ended, and its reservation keeps others from moving the guest"}
	case s.Over && !s.hasReturnedAdmission():
		return decision{Action: actGiveBack, Why: "it has ended"}
	case s.Over && s.Next != nil:
		return decision{Action: entity.ActNext, Why: "an object of the same name and another UID exists"}
	case s.Over:
		return decision{Action: entity.ActFinish, Why: "it has ended, and nothing of it is left"}
	case s.Stale:
		return s.decideRead(now, "its memory may be incomplete or old")
	case s.Result != ResultNone:
		return s.decideEnd(now)
	case s.MoveUnknown != "":
		return s.decideUnknown(now)
	case s.Proof != nil:
		return s.decideFinish(now)
	case s.Begun:
		return s.decideCopy(now)
	default:
		return s.decideSteps(now)
	}
}

// decideOrphan decides for a pod whose migration was not observed yet. Most such migrations ended long ago.
func (s *State) decideOrphan(now time.Time) decision {
	switch {
	case s.Target.Pod == nil && s.Missed:
		return decision{Action: entity.ActFinish, Why: "the VirtualMachineInstanceMigration is gone"}
	case s.Target.Pod == nil:
		return decision{Waiting: waits.For(waits.FirstObservation, "the VirtualMachineInstanceMigration")}
	case s.LookAt.IsZero() || now.Before(s.LookAt):
		return decision{WakeAt: s.LookAt,
			Waiting: waits.For(waits.OwnerObservation, "VirtualMachineInstanceMigration", s.Target.podName())}
	default:
		return decision{Action: entity.ActRead, Why: "its pod has started it, and it does not know the object"}
	}
}

// decideRead reads the API server's state. Where reads only lead to further reads, another process has to change
// something first: then there are pauses.
func (s *State) decideRead(now time.Time, why string) decision {
	if at := s.ReadAt.Add(backoff(s.Reads-readsAtOnce, readPause)); s.Reads > readsAtOnce && now.Before(at) {
		return decision{WakeAt: at, Waiting: waits.For(waits.NextRead)}
	}
	return decision{Action: entity.ActRead, Why: why}
}

// decideClaim returns the next signal to the instance, if one is due.
func (s *State) decideClaim(now time.Time) (decision, bool) {
	if s.isAnswered() {
		return decision{}, false
	}
	if s.Claim.Missing {
		return s.decideRead(now, "the instance has no workflow"), true
	}
	if stage := s.stageToRequest(); s.Claim.Stage != stage || !now.Before(s.Claim.AskAt) {
		return decision{Action: actClaim, Why: string(stage)}, true
	}
	return decision{}, false
}

// decideSteps leads from a new migration to the copy.
func (s *State) decideSteps(now time.Time) decision {
	if d, ok := s.decideClaim(now); ok {
		return d
	}
	switch {
	case !s.isGranted():
		return s.decideStatus(now)
	case s.Admission.Tries == 0 || !s.Admission.Admitted && !now.Before(s.Admission.AskAt):
		return decision{Action: actRequest, Why: "the instance agrees"}
	case !s.Admission.Admitted:
		return s.decideStatus(now)
	case !s.hasFreshOffer(now) && !s.isHeld() && !s.isOpen(actOffer):
		return decision{Action: actOffer, Why: "it takes its time, and needs nothing of the target"}
	case s.Target.Pod == nil:
		return decision{Action: actCreatePod, Why: "the target has no pod"}
	case !s.Target.isRunning():
		return s.decideStatus(now)
	case s.Settings == nil:
		return decision{Action: actConfigure, Why: "the target's pod runs"}
	case s.isHandedOff() && !s.isAnswered(), s.isHeld():
		return s.decideStatus(now)
	case !s.isHandedOff():
		return decision{Action: actHandOff, Why: "the target's pod runs on " + s.Target.nodeName()}
	case s.Offer == nil || s.isOpen(actOffer) || s.isOpen(actPrepare):
		return s.decideStatus(now)
	case s.Prepared == nil:
		return decision{Action: actPrepare, Why: "the instance agrees, and the source has made its offer"}
	default:
		return decision{Action: actBegin, Why: "the target is ready"}
	}
}

// hasFreshOffer reports whether there is an offer whose key is valid for as long as a copy may take.
func (s *State) hasFreshOffer(now time.Time) bool {
	return s.Offer != nil && now.Before(s.OfferedAt.Add(keyTime-keySpare))
}

// isHeld reports whether an operator hold stops the migration before its hand-off.
func (s *State) isHeld() bool { return s.Hold != nil && !s.isHandedOff() }

// decideCopy follows the copy, and aborts it where the guest is not to be moved any longer.
func (s *State) decideCopy(now time.Time) decision {
	switch {
	case !s.isOpen(actMigrate):
		return decision{Action: actMigrate, Why: "the outcome is unknown"}
	case s.Cause != "" && !s.AbortSent && !s.isOpen(actAbort) && !s.Failure.MustWait(string(actAbort), now):
		return decision{Action: actAbort, Why: s.Cause}
	case s.Pause && !s.Paused && !s.AbortSent && !s.isOpen(actAdjust) && !s.Failure.MustWait(string(actAdjust), now):
		return decision{Action: actAdjust, Why: "a person has asked for it"}
	}
	if d, ok := s.decideClaim(now); ok {
		return d
	}
	return s.decideStatus(now)
}

// decideFinish resumes the guest at its target, with the source's proof.
func (s *State) decideFinish(now time.Time) decision {
	if !s.isOpen(actFinish) {
		return decision{Action: actFinish, Why: "the guest can never run at its source again"}
	}
	return s.decideStatus(now)
}

// decideUnknown inspects both ends until they show where the guest is.
func (s *State) decideUnknown(now time.Time) decision {
	switch {
	case s.isOpen(actInspect) || s.isOpen(actAbort):
	case s.Inspection.Verdict == VerdictAbort && !s.AbortSent && !s.Failure.MustWait(string(actAbort), now):
		return decision{Action: actAbort, Why: s.Inspection.Why}
	case !now.Before(s.Inspection.dueAt()):
		return decision{Action: actInspect, Why: s.MoveUnknown}
	}
	return s.decideStatus(now)
}

// decideStatus writes the status when it differs and has settled.
func (s *State) decideStatus(now time.Time) decision {
	switch {
	case s.VMIM.Gone || !s.differs():
		return decision{}
	case now.Before(s.SettleBy):
		return decision{WakeAt: s.SettleBy}
	default:
		return decision{Action: entity.ActWrite, Why: "it differs from what was written"}
	}
}

// nextWake returns the earliest time at which the state changes by itself, or a signal is due again (zero: never).
func (s *State) nextWake(now time.Time) time.Time {
	var at time.Time
	earlier := func(t time.Time) {
		if now.Before(t) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if !s.isAnswered() && (s.MoveUnknown == "" || s.Result != ResultNone) {
		earlier(s.Claim.AskAt)
	}
	if s.Failure != nil {
		earlier(s.Failure.RetryAt)
	}
	if s.Result != ResultNone {
		earlier(s.leftOver().LookAt)
		earlier(s.endsBy())
		return at
	}
	if s.MoveUnknown != "" {
		earlier(s.Inspection.dueAt())
		return at
	}
	if s.isGranted() && !s.Admission.Admitted {
		earlier(s.Admission.AskAt)
	}
	earlier(s.returnsAt())
	earlier(s.unschedulableBy())
	earlier(s.pendingBy())
	earlier(s.configureBy())
	earlier(s.handOffBy())
	if s.Begun {
		earlier(s.CopyBy)
		earlier(s.LeftBy)
	}
	return at
}

// waiting returns what is waited for.
func (s *State) waiting() waits.Wait {
	switch {
	case s.Result != ResultNone:
		return s.waitingForEnd()
	case s.MoveUnknown != "":
		return s.Inspection.waiting(s)
	case s.Proof != nil:
		return waits.For(waits.Resume, s.Target.nodeName())
	case s.Begun && s.Cause != "":
		return waits.For(waits.Abort, s.Cause)
	case s.Begun:
		return waits.For(waits.Move, s.Source.nodeName(), s.Target.nodeName())
	case s.Claim.State == contract.ClaimRefused:
		return waits.For(waits.RefusedReservation, s.Claim.Why)
	case !s.isGranted():
		return waits.For(waits.Reservation)
	case s.Quota != "" && !s.Admission.Admitted:
		return waits.For(waits.Quota, s.Quota)
	case !s.Admission.Admitted && s.Admission.Position > 0:
		return waits.For(waits.AdmissionPosition, s.Admission.Position, s.Admission.Waiting, s.Admission.Why)
	case s.Admission.Unscheduled:
		return s.waitingForPod()
	case !s.Admission.Admitted:
		return waits.For(waits.Admission)
	case s.Target.Pod == nil:
		return waits.For(waits.TargetPod)
	case !s.Target.isRunning():
		return s.waitingForPod()
	case s.isHeld():
		return waits.For(waits.Release, "migration", s.Hold.Message)
	case !s.isAnswered():
		return waits.For(waits.HandOff)
	case s.Offer == nil:
		return waits.For(waits.Offer)
	default:
		return waits.For(waits.Preparation)
	}
}

func (s *State) waitingForPod() waits.Wait {
	switch p := s.Target.Pod; {
	case p.Unschedulable != nil:
		return waits.For(waits.TargetNode, p.Unschedulable.Message)
	case p.WaitingReason != "":
		return waits.For(waits.TargetImages, p.WaitingReason, p.WaitingMessage)
	default:
		return waits.For(waits.TargetRunning)
	}
}
