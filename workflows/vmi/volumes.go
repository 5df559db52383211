package vmi

import (
	"cmp"
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// useAgain is how long another's guest is left with a device before it is looked whether it still has it: nothing is
// heard of that, since the claim stays as it is.
const useAgain = 30 * time.Second

// Volumes is what is known of the PersistentVolumeClaims that the VMI's volumes are on. Nothing is decided from it but
// when to try again: what a pod needs is read by whoever makes it.
type Volumes struct {
	// Claims are as they were last heard of or read, and ClaimsVersion how far crdwatch had read for that.
	Claims        []contract.VolumeClaim `json:"claims,omitempty"`
	ClaimsVersion string                 `json:"claimsVersion,omitempty"`
	// Awaits is what the last attempt to make the pod found missing (nil: nothing). There is another one when something
	// was heard of the claims since it began, or at AwaitsUntil: an observation may have been missed.
	Awaits      *contract.Awaits `json:"awaits,omitempty"`
	AwaitsUntil time.Time        `json:"awaitsUntil,omitzero"`
	ClaimsHeard bool             `json:"claimsHeard,omitempty"`
	// Grown says that claims have grown, of which the guest has not been told.
	Grown bool `json:"grown,omitempty"`
	// Unseen is why a guest does not see that they have grown; nil: it sees it.
	Unseen *Unseen `json:"unseen,omitempty"`
	// Discarded is the UID of a pod that the last attempt made and deleted again: what is heard of it changes nothing.
	Discarded string `json:"discarded,omitempty"`
}

// Unseen is what the launcher in a pod said of claims that have grown: its guest sees it when it is started next.
type Unseen struct {
	Pod     string `json:"pod"` // its UID
	Message string `json:"message"`
}

// observeClaims folds what crdwatch says of the claims of this VMI. Fresh: whatever the versions are.
func (s *State) observeClaims(o contract.VMIObservation, fresh bool) {
	if o.Claims == nil || o.UID != s.Object.UID ||
		!fresh && entity.OlderPart(s.ClaimsVersion, o.ClaimsVersion, s.VMI, o) {
		return
	}
	s.ClaimsVersion = o.ClaimsVersion
	if !entity.Same(s.Claims, o.Claims) {
		// An entity without memory does not know whether the guest that it finds was told.
		s.Grown = s.Grown || grown(s.Claims, o.Claims) || s.Claims == nil && len(o.Claims) > 0 && o.Phase == "Running"
		s.Claims, s.ClaimsHeard = o.Claims, true
	}
}

// grown says that one of the claims has another capacity than before: they only grow.
func grown(before, after []contract.VolumeClaim) bool {
	return slices.ContainsFunc(after, func(now contract.VolumeClaim) bool {
		return slices.ContainsFunc(before, func(was contract.VolumeClaim) bool {
			return was.Volume == now.Volume && was.UID == now.UID && was.Capacity != "" && was.Capacity != now.Capacity
		})
	})
}

// decideGrown lets a guest that runs, and stays where it is, see that its disks have grown.
func (s *State) decideGrown() (decision, bool) {
	if !s.Grown || s.Phase != PhaseRunning || s.deleting() || s.Migration != nil || s.Pod == nil || s.podEnded() ||
		s.Domain == nil || s.Domain.State != contract.DomainRunning && s.Domain.State != contract.DomainPaused {
		return decision{}, false
	}
	return decision{Action: actResize, Why: "its claims have grown"}, true
}

// resized takes in how a launcher has answered. A launcher that refuses it is asked again only where the guest was
// about to move: else the guest sees it when it is started next, and the status says so until then.
func (s *State) resized(pod string, err error) error {
	s.Unseen = nil
	if entity.ErrorType(err) == contract.RefusedFailed && s.Migration == nil {
		s.Unseen = &Unseen{Pod: pod, Message: "the guest does not see that its disks have grown until it is started " +
			"again: " + entity.Message(err)}
		err = nil
	}
	s.Grown = s.Grown || err != nil
	return err
}

// attempted takes in what an attempt to make the pod has read of the claims.
func (s *State) attempted(r contract.CreatePodResult, now time.Time) {
	if r.Claims != nil && !s.ClaimsHeard { // what was heard meanwhile is newer
		s.Claims = r.Claims
	}
	s.Awaits, s.AwaitsUntil = r.Awaits, time.Time{}
	if r.Discarded != "" {
		s.Discarded = r.Discarded
		if s.Pod != nil && s.Pod.UID == r.Discarded {
			s.Launcher = Launcher{}
		}
	}
	switch {
	case r.Awaits == nil:
	case r.Awaits.Reason == contract.ReasonClaimInUse:
		s.AwaitsUntil = now.Add(useAgain)
	default:
		s.AwaitsUntil = now.Add(lookAgain)
	}
}

// awaiting says that another attempt to make the pod would find the same missing.
func (s *State) awaiting(now time.Time) bool {
	return s.Awaits != nil && !s.ClaimsHeard && now.Before(s.AwaitsUntil)
}

// lacking is what the VMI waits for before it gets a pod; nil: nothing.
func (s *State) lacking() *contract.Awaits {
	if s.Pod != nil || s.Phase.Final() {
		return nil
	}
	return s.Awaits
}

// shownClaims are those that exist, as the status shows them.
func (s *State) shownClaims() []contract.VolumeClaim {
	var out []contract.VolumeClaim
	for _, c := range s.Claims {
		if c.UID != "" {
			c.UID, c.Phase, c.DataVolume = "", "", nil
			out = append(out, c)
		}
	}
	return out
}

// populating says that the VMI waits for what is under way: a claim that is being populated.
func (s *State) populating() bool {
	w := s.lacking()
	return w != nil && w.Reason == contract.ReasonDataVolumesWait
}

// showDataVolumes says whether the DataVolumes of the VMI's volumes are ready, in KubeVirt's words, and what is waited
// for.
func (s *State) showDataVolumes(now time.Time) {
	var c *contract.Condition
	for _, claim := range s.Claims {
		if claim.DataVolume == nil {
			continue
		}
		if c == nil {
			c = &contract.Condition{Status: "True", Reason: "AllDVsReady",
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
	if c == nil {
		s.Conditions = conditions.Remove(s.Conditions, conditionDataVolumes)
		return
	}
	if w := s.lacking(); w != nil && c.Status != "True" {
		c.Message += ": " + w.Message
	}
	c.Type = conditionDataVolumes
	s.Conditions = conditions.Set(s.Conditions, *c, now)
}

const conditionDataVolumes = "DataVolumesReady"
