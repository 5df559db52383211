package vm

import (
	"time"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// State is everything that a VM entity knows. It is carried across Continue-As-New.
type State struct {
	Object contract.Object          `json:"object"`
	VM     *contract.VMObservation  `json:"vm,omitempty"`
	VMI    *contract.VMIObservation `json:"vmi,omitempty"`
	// Next is a newer incarnation of the name, taken up when this one is gone.
	Next *contract.VMObservation `json:"next,omitempty"`

	// Open is the transition in flight, and Count numbers them.
	Open  *Transition `json:"open,omitempty"`
	Count int         `json:"count,omitempty"`
	// Last is how the last transition went.
	Last *Outcome `json:"last,omitempty"`

	// Hold, Approved and Awaiting are a person's: see controls.go.
	Hold     *Hold              `json:"hold,omitempty"`
	Approved *Approval          `json:"approved,omitempty"`
	Awaiting contract.Operation `json:"awaiting,omitempty"`
	entity.Manual

	StartFailure *contract.StartFailure `json:"startFailure,omitempty"`
	Failure      *Failure               `json:"failure,omitempty"`

	Conditions []contract.Condition `json:"conditions,omitempty"`
	Written    *contract.VMStatus   `json:"written,omitempty"`

	// Logic is the version of the planner that this run keeps to.
	Logic int `json:"logic,omitempty"`
}

// Transition is an open child workflow.
type Transition struct {
	Operation contract.Operation `json:"operation"`
	ID        string             `json:"id"`
	Why       string             `json:"why"`
	Actor     string             `json:"actor,omitempty"`
	// VMI is the UID of the instance that is to go, for stop and restart.
	VMI   string    `json:"vmi,omitempty"`
	Since time.Time `json:"since"`
	// Told is the milestone that the child was last told of, or that held when it was opened.
	Told contract.Milestone `json:"told,omitzero"`
	// Cancelled says that a newer wish called it off.
	Cancelled bool `json:"cancelled,omitempty"`
	// CallOff says that a person wants it called off, and who.
	CallOff string `json:"callOff,omitempty"`
	// ApprovedBy is who approved it, as claimed.
	ApprovedBy string `json:"approvedBy,omitempty"`
}

// Outcome is how a transition went.
type Outcome struct {
	Operation contract.Operation `json:"operation"`
	ID        string             `json:"id"`
	Error     string             `json:"error,omitempty"`
	At        time.Time          `json:"at"`
}

// Failure is a step or transition that did not succeed; it is tried again at RetryAt.
type Failure struct {
	Step    string    `json:"step"`
	Reason  string    `json:"reason"` // of the Failure condition
	Message string    `json:"message"`
	Count   int       `json:"count"`
	RetryAt time.Time `json:"retryAt"`
}

// observeVM folds what crdwatch saw of the VM object.
func (s *State) observeVM(o contract.VMObservation) {
	switch {
	case s.Object.UID == "":
		if !o.Gone {
			s.adopt(o)
		}
	case o.UID == s.Object.UID:
		if s.VM.Gone || (!o.Gone && !entity.Newer(o.ResourceVersion, s.VM.ResourceVersion)) {
			return
		}
		if o.Gone {
			last := *s.VM
			last.Gone = true
			o = last
		}
		if o.Generation != s.VM.Generation && s.Failure != nil {
			// Somebody changed the specification: what failed before may go well now.
			s.Failure.RetryAt = time.Time{}
		}
		s.VM = &o
	case o.Gone:
		if s.Next != nil && s.Next.UID == o.UID {
			s.Next = nil
		}
	case entity.Newer(o.ResourceVersion, s.VM.ResourceVersion):
		if s.Next == nil || entity.Newer(o.ResourceVersion, s.Next.ResourceVersion) {
			s.Next = &o
		}
		// Two objects of one name never exist at once: the newer one proves that this one is gone.
		last := *s.VM
		last.Gone = true
		s.VM = &last
	}
}

func (s *State) adopt(o contract.VMObservation) {
	s.Object.UID = o.UID
	s.VM = &o
	s.StartFailure = o.StartFailure
	if o.Held != nil {
		s.Hold = &Hold{Message: o.Held.Message}
		if o.Held.LastTransitionTime != nil {
			s.Hold.Since = *o.Held.LastTransitionTime
		}
	}
	if s.VMI != nil && s.VMI.OwnerUID != "" && s.VMI.OwnerUID != o.UID {
		s.VMI = nil
	}
}

// observeVMI folds what crdwatch saw of the VMI of this name. One that another VM controls does not count.
func (s *State) observeVMI(o contract.VMIObservation) {
	if o.OwnerUID != "" && s.Object.UID != "" && o.OwnerUID != s.Object.UID {
		return
	}
	if s.VMI == nil || s.VMI.UID != o.UID {
		if o.Gone || (s.VMI != nil && !entity.Newer(o.ResourceVersion, s.VMI.ResourceVersion)) {
			return
		}
		s.VMI = &o
		return
	}
	if s.VMI.Gone || (!o.Gone && !entity.Newer(o.ResourceVersion, s.VMI.ResourceVersion)) {
		return
	}
	if o.Gone {
		last := *s.VMI
		last.Gone = true
		o = last
	}
	s.VMI = &o
}

// next moves on to the newer incarnation.
func (s *State) next() State {
	n := State{Object: contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name}, Logic: s.Logic}
	if s.Next != nil {
		n.adopt(*s.Next)
	}
	return n
}

func (s *State) situation() Situation {
	switch {
	case s.VMI == nil || s.VMI.Gone:
		return Absent
	case s.VMI.DeletionTimestamp != nil:
		return Deleting
	case s.VMI.Phase == "Succeeded":
		return Succeeded
	case s.VMI.Phase == "Failed":
		return Failed
	default:
		return Alive
	}
}

// request is the first pending state change request, as far as it concerns the present VMI.
func (s *State) request() Request {
	if len(s.VM.StateChangeRequests) == 0 {
		return NoRequest
	}
	r := s.VM.StateChangeRequests[0]
	switch {
	case r.Action == "Start":
		return StartRequest
	case r.Action == "Stop" && s.situation() != Absent && r.UID == s.VMI.UID:
		return StopRequest
	default:
		return NoRequest
	}
}

// pendingRequests are the state change requests without a first one that has been met or no longer makes sense.
func (s *State) pendingRequests() []contract.StateChangeRequest {
	reqs := s.VM.StateChangeRequests
	for len(reqs) > 0 {
		r, sit := reqs[0], s.situation()
		met := r.Action == "Stop" && (sit == Absent || r.UID == "" || r.UID != s.VMI.UID) || r.Action == "Start" && sit == Alive
		if !met {
			break
		}
		reqs = reqs[1:]
	}
	return reqs
}

// milestone is what a transition waits for, read from the VMI.
func (s *State) milestone() contract.Milestone {
	switch s.situation() {
	case Absent:
		if s.VMI != nil {
			return contract.Milestone{State: contract.MilestoneAbsent, VMIUID: s.VMI.UID}
		}
	case Succeeded, Failed:
		return contract.Milestone{State: contract.MilestoneEnded, VMIUID: s.VMI.UID, Phase: s.VMI.Phase}
	case Alive:
		if s.VMI.Phase == "Running" {
			return contract.Milestone{State: contract.MilestoneRunning, VMIUID: s.VMI.UID, Phase: s.VMI.Phase}
		}
	case Deleting:
	}
	return contract.Milestone{}
}

func (s *State) deleting() bool { return s.VM.Gone || s.VM.DeletionTimestamp != nil }

// orphaned says that the VM is being deleted with its dependents left alone.
func (s *State) orphaned() bool {
	for _, f := range s.VM.Finalizers {
		if f == "orphan" {
			return true
		}
	}
	return false
}

// noteEnd counts instances that ended without ever running, and forgets the count once one has run.
func (s *State) noteEnd(now time.Time) {
	if s.StartFailure != nil && (s.VMI != nil && s.VMI.EverRan || !backsOff(Strategy(s.VM.RunStrategy))) {
		s.StartFailure = nil
	}
	sit := s.situation()
	if sit != Failed && sit != Succeeded || s.VMI.EverRan || !backsOff(Strategy(s.VM.RunStrategy)) {
		return
	}
	if s.StartFailure != nil && s.StartFailure.LastFailedVMIUID == s.VMI.UID {
		return
	}
	count := 1
	if s.StartFailure != nil {
		count = s.StartFailure.ConsecutiveFailCount + 1
	}
	at := now.Add(backOff(count, s.VMI.UID)).Truncate(time.Second)
	s.StartFailure = &contract.StartFailure{ConsecutiveFailCount: count, LastFailedVMIUID: s.VMI.UID, RetryAfter: &at}
}

// forgetFailure drops a failure whose aim has been reached another way, or is nobody's any more.
func (s *State) forgetFailure() {
	if s.Failure == nil {
		return
	}
	halted := Strategy(s.VM.RunStrategy) == Halted
	over := false
	switch s.Failure.Step {
	case string(contract.OperationStart), string(contract.OperationRestart):
		over = s.running() || halted || s.deleting()
	case string(contract.OperationStop):
		over = s.situation() == Absent && s.VMI != nil
	case string(actSetAlways):
		over = !halted || s.request() != StartRequest
	}
	if over {
		s.Failure = nil
	}
}

func backsOff(s Strategy) bool { return s == Always || s == Once }

// backOff is KubeVirt's: 10 s times the square of the count, plus up to half of that, at most 300 s. The part that is random there
// is taken from the UID of the instance that failed, so that a replay finds the same.
func backOff(count int, uid string) time.Duration {
	const limit = 300 * time.Second
	d := 10 * time.Second * time.Duration(min(count*count, 30))
	var h uint64 = 14695981039346656037
	for i := range len(uid) {
		h = (h ^ uint64(uid[i])) * 1099511628211
	}
	d += time.Duration(float64(d/2) * float64(h%1000) / 1000)
	return min(d, limit)
}

// mirror copies the VMI's conditions, as KubeVirt does: while there is no VMI the previous ones stay.
func (s *State) mirror(now time.Time) {
	now = now.Truncate(time.Second)
	own := map[string]bool{
		"Failure": true, "Ready": true, "RestartRequired": true,
		contract.ConditionHeld: true, contract.ConditionApprovalRequired: true, contract.ConditionControlRefused: true,
	}
	if s.situation() == Absent {
		s.Conditions = conditions.Set(s.Conditions, contract.Condition{Type: "Ready", Status: "False", Reason: "VMINotExists", Message: "VMI does not exist"}, now)
	} else {
		var kept []contract.Condition
		for _, c := range s.Conditions {
			if _, there := conditions.Get(s.VMI.Conditions, c.Type); there || own[c.Type] {
				kept = append(kept, c)
			}
		}
		s.Conditions = kept
		for _, c := range s.VMI.Conditions {
			s.Conditions = conditions.Set(s.Conditions, c, now)
		}
		if _, ok := conditions.Get(s.VMI.Conditions, "Ready"); !ok {
			s.Conditions = conditions.Set(s.Conditions, contract.Condition{Type: "Ready", Status: "False", Reason: "VMIConditionMissing", Message: "VMI is missing the Ready condition"}, now)
		}
	}
	s.manualConditions(now)
	if s.Failure != nil && s.Failure.Step != string(actWrite) && s.Failure.Step != string(actLetGo) {
		s.Conditions = conditions.Set(s.Conditions, contract.Condition{Type: "Failure", Status: "True", Reason: s.Failure.Reason, Message: s.Failure.Message}, now)
	} else {
		s.Conditions = conditions.Remove(s.Conditions, "Failure")
	}
}
