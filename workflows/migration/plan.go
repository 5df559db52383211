package migration

import (
	"fmt"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// settleTime is how long a status that differs is not written yet: a pod that starts at once, and a guest that is
// moved in a second, go through all phases in two or three writes. status.phaseTransitionTimestamps has each.
const settleTime = time.Second

// orphanTime is how long the object of a pod is waited for that was heard of first.
const orphanTime = 10 * time.Second

// keyTime is how long the key of an offer is good, and keySpare how much of that has to be left when it is used.
const (
	keyTime  = 48 * time.Hour
	keySpare = 25 * time.Hour
)

// Both ends are looked at again after lookFirst, doubled each time, or after lookNews when there is news.
const (
	lookFirst = 2 * time.Second
	lookNews  = time.Second
)

// What is true is read at once readsAtOnce times in a row, then after readPause, doubled each time.
const (
	readsAtOnce = 3
	readPause   = time.Second
)

type (
	action   = entity.Action
	decision = entity.Decision
)

// Steps.
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

// decide is the planner: pure and total.
func (s *State) decide(now time.Time) decision {
	var status func(time.Time) decision
	if s.VMIM != nil && !s.Stale && !s.Over {
		status = s.decideStatus // what went wrong belongs into it
	}
	d := s.Failure.HoldBack(s.choose(now), now, status)
	if s.VMIM == nil || s.Over {
		return d
	}
	return d.By(s.alarm(now)).Or(s.waiting())
}

// choose is the planner in order of urgency.
func (s *State) choose(now time.Time) decision {
	switch {
	case s.VMIM == nil:
		return s.decideOrphan(now)
	case s.Over && s.Claim.Stage == contract.StageClaim:
		return decision{Action: actClaim, Why: "it has ended, and keeps others from moving the guest"}
	case s.Over && !s.gaveBack():
		return decision{Action: actGiveBack, Why: "it has ended"}
	case s.Over && s.Next != nil:
		return decision{Action: entity.ActNext, Why: "an object of the same name and another UID exists"}
	case s.Over:
		return decision{Action: entity.ActFinish, Why: "it has ended, and nothing of it is left"}
	case s.Stale:
		return s.decideRead(now, "it may know less than there is, or something older")
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

// decideOrphan is about a pod whose migration nobody has seen. Most are of guests that were moved long ago.
func (s *State) decideOrphan(now time.Time) decision {
	switch {
	case s.Target.Pod == nil && s.Missed:
		return decision{Action: entity.ActFinish, Why: "the VirtualMachineInstanceMigration is gone"}
	case s.Target.Pod == nil:
		return decision{Waiting: "the first observation of the VirtualMachineInstanceMigration"}
	case s.LookAt.IsZero() || now.Before(s.LookAt):
		return decision{WakeAt: s.LookAt, Waiting: "the VirtualMachineInstanceMigration of pod " + s.Target.name()}
	default:
		return decision{Action: entity.ActRead, Why: "its pod has started it, and it does not know the object"}
	}
}

// decideRead reads what is true. Where that leads to nothing but the next read, others have to change something first:
// then there are pauses.
func (s *State) decideRead(now time.Time, why string) decision {
	if at := s.ReadAt.Add(pause(s.Reads-readsAtOnce, readPause)); s.Reads > readsAtOnce && now.Before(at) {
		return decision{WakeAt: at, Waiting: "what is true to be read again"}
	}
	return decision{Action: entity.ActRead, Why: why}
}

// decideTold is what has to be said to the instance.
func (s *State) decideTold(now time.Time) (decision, bool) {
	if s.answered() {
		return decision{}, false
	}
	if s.Claim.Missing {
		return s.decideRead(now, "the instance has no workflow"), true
	}
	if stage := s.stage(); s.Claim.Stage != stage || !now.Before(s.Claim.AskAt) {
		return decision{Action: actClaim, Why: string(stage)}, true
	}
	return decision{}, false
}

// decideSteps leads from nothing to the copy.
func (s *State) decideSteps(now time.Time) decision {
	if d, ok := s.decideTold(now); ok {
		return d
	}
	switch {
	case !s.given():
		return s.decideStatus(now)
	case s.Admission.Tries == 0 || !s.Admission.Admitted && !now.Before(s.Admission.AskAt):
		return decision{Action: actRequest, Why: "the instance agrees"}
	case !s.Admission.Admitted:
		return s.decideStatus(now)
	case !s.fresh(now) && !s.held() && !s.open(actOffer):
		return decision{Action: actOffer, Why: "it takes its time, and needs nothing of the target"}
	case s.Target.Pod == nil:
		return decision{Action: actCreatePod, Why: "it has none"}
	case !s.Target.runs():
		return s.decideStatus(now)
	case s.Settings == nil:
		return decision{Action: actConfigure, Why: "the target's pod runs"}
	case s.handedOff() && !s.answered(), s.held():
		return s.decideStatus(now)
	case !s.handedOff():
		return decision{Action: actHandOff, Why: "the target's pod runs on " + s.Target.node()}
	case s.Offer == nil || s.open(actOffer) || s.open(actPrepare):
		return s.decideStatus(now)
	case s.Prepared == nil:
		return decision{Action: actPrepare, Why: "the instance agrees, and the source has made its offer"}
	default:
		return decision{Action: actBegin, Why: "the target is ready"}
	}
}

// fresh says that there is an offer whose key is good for as long as a copy may take.
func (s *State) fresh(now time.Time) bool {
	return s.Offer != nil && now.Before(s.OfferedAt.Add(keyTime-keySpare))
}

// held says that a person has the guest wait before it is handed off.
func (s *State) held() bool { return s.Hold != nil && !s.handedOff() }

// decideCopy follows the copy, and aborts it where the guest is not to be moved any more.
func (s *State) decideCopy(now time.Time) decision {
	switch {
	case !s.open(actMigrate):
		return decision{Action: actMigrate, Why: "the outcome is not known"}
	case s.Cause != "" && !s.AbortSent && !s.open(actAbort) && !s.Failure.Holds(string(actAbort), now):
		return decision{Action: actAbort, Why: s.Cause}
	case s.Pause && !s.Paused && !s.AbortSent && !s.open(actAdjust) && !s.Failure.Holds(string(actAdjust), now):
		return decision{Action: actAdjust, Why: "a person has asked for it"}
	}
	if d, ok := s.decideTold(now); ok {
		return d
	}
	return s.decideStatus(now)
}

// decideFinish lets the guest go on at its target, with its source's proof.
func (s *State) decideFinish(now time.Time) decision {
	if !s.open(actFinish) {
		return decision{Action: actFinish, Why: "it can never run at its source again"}
	}
	return s.decideStatus(now)
}

// decideUnknown looks at both ends until they say whose the guest is.
func (s *State) decideUnknown(now time.Time) decision {
	switch {
	case s.open(actInspect) || s.open(actAbort):
	case s.Look.Verdict == VerdictAbort && !s.AbortSent && !s.Failure.Holds(string(actAbort), now):
		return decision{Action: actAbort, Why: s.Look.Why}
	case !now.Before(s.Look.at()):
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

// alarm is the earliest time at which the state changes by itself, or something is to be said again (zero: never).
func (s *State) alarm(now time.Time) time.Time {
	var at time.Time
	earlier := func(t time.Time) {
		if now.Before(t) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if !s.answered() && (s.MoveUnknown == "" || s.Result != ResultNone) {
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
		earlier(s.Look.at())
		return at
	}
	if s.given() && !s.Admission.Admitted {
		earlier(s.Admission.AskAt)
	}
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

// waiting says what is waited for.
func (s *State) waiting() string {
	switch {
	case s.Result != ResultNone:
		return s.waitingForEnd()
	case s.MoveUnknown != "":
		return s.Look.text(s)
	case s.Proof != nil:
		return "the guest to go on at " + s.Target.node()
	case s.Begun && s.Cause != "":
		return "the copy to be aborted: " + s.Cause
	case s.Begun:
		return fmt.Sprintf("the guest to be moved from %s to %s", s.Source.node(), s.Target.node())
	case s.Claim.State == contract.ClaimRefused:
		return "the instance: " + s.Claim.Why
	case !s.given():
		return "the instance to agree"
	case s.Quota != "" && !s.Admission.Admitted:
		return "a resource quota to have room: " + s.Quota
	case !s.Admission.Admitted && s.Admission.Position > 0:
		return fmt.Sprintf("the cluster's limits: place %d of %d: %s", s.Admission.Position, s.Admission.Waiting, s.Admission.Why)
	case !s.Admission.Admitted:
		return "the cluster's limits"
	case s.Target.Pod == nil:
		return "a pod for the target"
	case !s.Target.runs():
		return s.waitingForPod()
	case s.held():
		return "a person: the migration is " + s.Hold.Message
	case !s.answered():
		return "the instance to say that it is handed off"
	case s.Offer == nil:
		return "the source's offer"
	default:
		return "the target to be prepared"
	}
}

func (s *State) waitingForPod() string {
	switch p := s.Target.Pod; {
	case p.Unschedulable != nil:
		return "a node for the target: " + p.Unschedulable.Message
	case p.WaitingReason != "":
		return "the images of the target's pod: " + p.WaitingReason + " " + p.WaitingMessage
	default:
		return "the target's pod to run"
	}
}
