package vmi

import (
	"cmp"
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// useAgain is how long a device in use by another guest is awaited before it is checked again. No observation reports
// its release, since the PVC does not change.
const useAgain = 30 * time.Second

// Volumes has what is known of the PersistentVolumeClaims of the VMI's volumes. It only decides when to try again: the
// activity that creates the pod reads what the pod needs.
type Volumes struct {
	// PVCs are the last that were observed or read. PVCsVersion is crdwatch's resourceVersion at that time.
	PVCs        []contract.VolumeClaim `json:"claims,omitempty"`
	PVCsVersion string                 `json:"claimsVersion,omitempty"`
	// Awaits has what the last attempt to create the pod found missing (nil: nothing). The next attempt follows when
	// the PVCs were observed to change since, or at AwaitsUntil: an observation may have been lost.
	Awaits       *contract.Awaits `json:"awaits,omitempty"`
	AwaitsUntil  time.Time        `json:"awaitsUntil,omitzero"`
	PVCsObserved bool             `json:"claimsHeard,omitempty"`
	// Grown means that PVCs have grown and that the guest was not notified yet.
	Grown bool `json:"grown,omitempty"`
	// Unseen is why a guest does not see that its PVCs have grown; nil: it sees it.
	Unseen *UnseenGrowth `json:"unseen,omitempty"`
	// Discarded is the UID of a pod that the last attempt created and deleted again: observations of it change nothing.
	Discarded string `json:"discarded,omitempty"`
}

// UnseenGrowth is a launcher's answer that its guest sees the new size of its PVCs only after the next start.
type UnseenGrowth struct {
	Pod     string `json:"pod"` // its UID
	Message string `json:"message"`
}

// observePVCs folds in crdwatch's observation of the PVCs of this VMI. Fresh means that it counts whatever the versions
// are.
func (v *Volumes) observePVCs(o contract.VMIObservation, of *VMIObject, fresh bool) {
	if o.Claims == nil || o.UID != of.Object.UID ||
		!fresh && entity.OlderPart(v.PVCsVersion, o.ClaimsVersion, of.VMI, o) {
		return
	}
	v.PVCsVersion = o.ClaimsVersion
	if !entity.Same(v.PVCs, o.Claims) {
		// An entity without history does not know whether the running guest was notified.
		v.Grown = v.Grown || hasGrown(v.PVCs, o.Claims) || v.PVCs == nil && len(o.Claims) > 0 && o.Phase == "Running"
		v.PVCs, v.PVCsObserved = o.Claims, true
	}
}

// hasGrown reports whether one of the PVCs has another capacity than before: they only grow.
func hasGrown(before, after []contract.VolumeClaim) bool {
	return slices.ContainsFunc(after, func(now contract.VolumeClaim) bool {
		return slices.ContainsFunc(before, func(was contract.VolumeClaim) bool {
			return was.Volume == now.Volume && was.UID == now.UID && was.Capacity != "" && was.Capacity != now.Capacity
		})
	})
}

// decideGrown has a guest that runs and does not migrate see that its disks have grown.
func (s *State) decideGrown() (decision, bool) {
	if !s.Grown || s.Phase != PhaseRunning || s.isDeleting() || s.Migration != nil || s.Pod == nil || s.hasPodEnded() ||
		s.Domain == nil || s.Domain.State != contract.DomainRunning && s.Domain.State != contract.DomainPaused {
		return decision{}, false
	}
	return decision{Action: actResize, Why: "its PVCs have grown"}, true
}

// noteResize folds in a launcher's answer. If the launcher refuses, the step is repeated only where the guest is about
// to move. Otherwise the guest sees the new size after its next start, and the status shows that until then.
func (v *Volumes) noteResize(pod string, moves bool, err error) error {
	v.Unseen = nil
	if entity.ErrorType(err) == contract.RefusedFailed && !moves {
		v.Unseen = &UnseenGrowth{Pod: pod, Message: "the guest does not see that its disks have grown until it is " +
			"started again: " + entity.Message(err)}
		err = nil
	}
	v.Grown = v.Grown || err != nil
	return err
}

// noteAttempt folds in what an attempt to create the pod has read of the PVCs.
func (v *Volumes) noteAttempt(r contract.CreatePodResult, now time.Time) {
	if r.Claims != nil && !v.PVCsObserved { // an observation since then is newer
		v.PVCs = r.Claims
	}
	v.Awaits, v.AwaitsUntil = r.Awaits, time.Time{}
	v.Discarded = cmp.Or(r.Discarded, v.Discarded)
	switch {
	case r.Awaits == nil:
	case r.Awaits.Reason == contract.ReasonClaimInUse:
		v.AwaitsUntil = now.Add(useAgain)
	default:
		v.AwaitsUntil = now.Add(findPodAfter)
	}
}

// isAwaitingVolumes reports whether another attempt to create the pod would find the same volumes missing.
func (v *Volumes) isAwaitingVolumes(now time.Time) bool {
	return v.Awaits != nil && !v.PVCsObserved && now.Before(v.AwaitsUntil)
}

// awaitedVolumes returns what the VMI waits for before it gets a pod; nil: nothing.
func (s *State) awaitedVolumes() *contract.Awaits {
	if s.Pod != nil || s.Phase.Final() {
		return nil
	}
	return s.Awaits
}

// statusPVCs returns the existing PVCs as the status shows them.
func (v *Volumes) statusPVCs() []contract.VolumeClaim {
	var out []contract.VolumeClaim
	for _, c := range v.PVCs {
		if c.UID != "" {
			c.UID, c.Phase, c.DataVolume = "", "", nil
			out = append(out, c)
		}
	}
	return out
}

// dataVolumesCondition returns KubeVirt's condition for the DataVolumes of the VMI's volumes, with what is awaited if
// that is not nil. It returns nil if there is no DataVolume.
func (v *Volumes) dataVolumesCondition(awaited *contract.Awaits) *contract.Condition {
	var c *contract.Condition
	for _, claim := range v.PVCs {
		if claim.DataVolume == nil {
			continue
		}
		if c == nil {
			c = &contract.Condition{Type: conditionDataVolumes, Status: "True", Reason: "AllDVsReady",
				Message: "All of the VMI's DVs are bound and ready"}
		}
		switch ready := claim.DataVolume.Ready; {
		case ready == "True":
			continue
		case ready == "False" || c.Status == "True":
			c.Status = cmp.Or(ready, "Unknown")
		}
		c.Reason, c.Message = contract.ReasonDataVolumesWait, "Not all of the VMI's DVs are ready"
	}
	if c != nil && c.Status != "True" && awaited != nil {
		c.Message += ": " + awaited.Message
	}
	return c
}

const conditionDataVolumes = "DataVolumesReady"
