package vm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

func TestGoneInstanceDoesNotComeBack(t *testing.T) {
	s := State{Object: contract.Object{UID: "vm"}, VM: &contract.VMObservation{UID: "vm"}}
	s.observeVMI(contract.VMIObservation{UID: "a", ResourceVersion: "10", OwnerUID: "vm"})
	s.observeVMI(contract.VMIObservation{UID: "b", ResourceVersion: "30", OwnerUID: "vm"})
	s.observeVMI(contract.VMIObservation{UID: "b", Gone: true})
	s.observeVMI(contract.VMIObservation{UID: "a", ResourceVersion: "20", OwnerUID: "vm"})
	require.Equal(t, runstrategy.Absent, s.situation(), "an old observation arrived late")
	s.observeVMI(contract.VMIObservation{UID: "c", ResourceVersion: "40", OwnerUID: "vm"})
	require.Equal(t, runstrategy.Alive, s.situation())
}

// TestFirstObservationIsInstanceGone: such an observation counts if the instance's end was requested without knowing
// its UID.
func TestFirstObservationIsInstanceGone(t *testing.T) {
	s := State{Object: contract.Object{UID: "vm"}, VM: &contract.VMObservation{UID: "vm"}}
	s.observeVMI(contract.VMIObservation{UID: "a", Gone: true})
	require.Nil(t, s.VMI, "no end was requested")
	s.Open = &Transition{Transition: entity.Transition{Operation: contract.OperationStop}}
	s.observeVMI(contract.VMIObservation{UID: "a", Gone: true})
	require.Equal(t, contract.InstanceProgress{State: contract.ProgressAbsent, VMIUID: "a"}, s.progress())
	s.observeVMI(contract.VMIObservation{UID: "b", ResourceVersion: "9", OwnerUID: "vm"})
	require.Equal(t, runstrategy.Alive, s.situation(), "it was another one")
}

func TestNewerObjectProvesOldIsGone(t *testing.T) {
	s := State{}
	s.observeVM(contract.VMObservation{UID: "old", ResourceVersion: "10"})
	s.observeVM(contract.VMObservation{UID: "new", ResourceVersion: "20"})
	require.True(t, s.VM.Gone)
	require.Equal(t, "new", s.successor().Object.UID)
}

func TestIgnoresInstanceOfAnotherVM(t *testing.T) {
	s := State{}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "5", OwnerUID: "old"})
	s.observeVM(contract.VMObservation{UID: "new", ResourceVersion: "10"})
	require.Equal(t, runstrategy.Absent, s.situation())
}

func TestFinishesWhenVMIsAlreadyGone(t *testing.T) {
	s := State{}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "5", OwnerUID: "vm"})
	require.Equal(t, entity.ActRead, s.decide(time.Unix(1000, 0)).Action, "its VirtualMachine may be there")
	s.observeVM(contract.VMObservation{UID: "vm", Gone: true})
	require.Equal(t, entity.ActFinish, s.decide(time.Time{}).Action)
	s.observeVM(contract.VMObservation{UID: "new", ResourceVersion: "9"})
	require.NotEqual(t, entity.ActFinish, s.decide(time.Time{}).Action)
}

// TestActorOfRequest: the user in the request that the subresources API wrote, and not the one who changed the object
// before.
func TestActorOfRequest(t *testing.T) {
	start := contract.StateChangeRequest{Action: "Start",
		Data: map[string]string{contract.AnnotationRequestedBy: "jane"}}
	for name, c := range map[string]struct {
		requests []contract.StateChangeRequest
		want     string
	}{
		"none":             {nil, "bob"},
		"jane's":           {[]contract.StateChangeRequest{start}, "jane"},
		"without actor":    {[]contract.StateChangeRequest{{Action: "Start"}}, "bob"},
		"one that was met": {[]contract.StateChangeRequest{{Action: "Stop", UID: "old"}, start}, "jane"},
	} {
		s := State{VM: &contract.VMObservation{UID: "u", Actor: "bob", StateChangeRequests: c.requests}}
		require.Equal(t, c.want, s.actor(), name)
	}
}

// TestNewEntityReadsFirst: an earlier run may have left an instance, or a person's control.
func TestNewEntityReadsFirst(t *testing.T) {
	now := time.Unix(1000, 0)
	o := contract.VMObservation{UID: "vm", ResourceVersion: "10", RunStrategy: "Always",
		Finalizers: []string{contract.FinalizerVM}, Reported: true, Epoch: 1}
	s := State{}
	s.observeVM(o)
	require.Equal(t, entity.ActRead, s.decide(now).Action)
	s.applyRead(contract.ReadVMResult{VM: &o,
		VMI: &contract.VMIObservation{UID: "i", ResourceVersion: "9", OwnerUID: "vm", Phase: "Running"}})
	s.refresh(now)
	require.NotContains(t, []action{entity.ActOpen, entity.ActRead}, s.decide(now).Action, "its guest runs")

	s = State{}
	o.Reported = false
	s.observeVM(o)
	s.refresh(now)
	require.Equal(t, entity.ActOpen, s.decide(now).Action, "a new VM costs no read")
}

// TestInstanceStartsEntityOfItsVM: the entity then reads the VM, because a VM that does not change is not observed.
func TestInstanceStartsEntityOfItsVM(t *testing.T) {
	now := time.Unix(1000, 0)
	s := State{}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "9", OwnerUID: "vm", Phase: "Running"})
	require.Equal(t, entity.ActRead, s.decide(now).Action)
	s.applyRead(contract.ReadVMResult{})
	require.Equal(t, entity.ActFinish, s.decide(now).Action, "there is no such VM")
}

// TestCorrectsOlderStateInNewEpoch: in a new epoch Kubernetes' objects count, whatever their versions. Controls of
// persons stay.
func TestCorrectsOlderStateInNewEpoch(t *testing.T) {
	now := time.Unix(1000, 0)
	s := State{}
	s.observeVM(contract.VMObservation{UID: "vm", ResourceVersion: "10", RunStrategy: "Halted",
		Finalizers: []string{contract.FinalizerVM}, Epoch: 1})
	s.observeVMI(contract.VMIObservation{UID: "old", ResourceVersion: "8", OwnerUID: "vm", Phase: "Running", Epoch: 1})
	s.observeVM(contract.VMObservation{UID: "vm", ResourceVersion: "5", RunStrategy: "Always", Epoch: 2})
	require.Equal(t, entity.ActRead, s.decide(now).Action, "and not a stop")
	held := contract.Condition{Type: contract.ConditionHeld, Status: "True", Message: "held by bob"}
	s.applyRead(contract.ReadVMResult{
		VM: &contract.VMObservation{UID: "vm", ResourceVersion: "5", RunStrategy: "Always",
			Finalizers: []string{contract.FinalizerVM}, Held: &held},
	})
	require.Equal(t, "held by bob", s.Hold.Message)
	require.Equal(t, runstrategy.Absent, s.situation())
	s.refresh(now)
	require.NotEqual(t, entity.ActOpen, s.decide(now).Action, "it is held")
}

// TestReadInstanceKeepsPVCs: an activity reads the instance itself, and only crdwatch its PVCs.
func TestReadInstanceKeepsPVCs(t *testing.T) {
	vm := contract.VMObservation{UID: "vm", ResourceVersion: "10", RunStrategy: "Always",
		Finalizers: []string{contract.FinalizerVM}}
	seen := contract.VMIObservation{UID: "i", ResourceVersion: "8", OwnerUID: "vm", Phase: "Running",
		Claims: []contract.VolumeClaim{{Volume: "data", Claim: "c"}}, ClaimsVersion: "7"}
	now := contract.VMIObservation{UID: "i", ResourceVersion: "9", OwnerUID: "vm", Phase: "Running"}
	another := now
	another.UID = "j"
	for name, take := range map[string]func(*State, contract.VMIObservation){
		"by a read": func(s *State, o contract.VMIObservation) { s.applyRead(contract.ReadVMResult{VM: &vm, VMI: &o}) },
		"by a refusal": func(s *State, o contract.VMIObservation) {
			require.True(t, s.adoptRead(contract.TransitionResult{VMI: &o}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{}
			s.observeVM(vm)
			s.observeVMI(seen)
			take(&s, now)
			require.Equal(t, "9", s.VMI.ResourceVersion)
			require.Equal(t, seen.Claims, s.VMI.Claims)
			require.Equal(t, "7", s.VMI.ClaimsVersion)
			take(&s, another)
			require.Empty(t, s.VMI.Claims, "those are of another instance")
		})
	}
}

// TestReadsUnknownHold: an unknown hold is read before anything is decided or written: the state is an older copy
// without the hold, and no new epoch has begun yet. A hold that was released here is only not written yet.
func TestReadsUnknownHold(t *testing.T) {
	at := time.Unix(1000, 0)
	held := contract.Condition{Type: contract.ConditionHeld, Status: "True", Message: "held by bob",
		LastTransitionTime: &at}
	o := contract.VMObservation{UID: "vm", ResourceVersion: "10", RunStrategy: "Always",
		Finalizers: []string{contract.FinalizerVM}, Epoch: 1}
	now := o
	now.ResourceVersion, now.Held = "20", &held
	for name, learn := range map[string]func(s *State){
		"by an observation": func(s *State) { s.observeVM(now) },
		"by a conflict":     func(s *State) { require.NoError(t, s.conflictsWith(now)) },
		"by a refusal":      func(s *State) { require.True(t, s.adoptRead(contract.TransitionResult{VM: &now})) },
	} {
		t.Run(name, func(t *testing.T) {
			s := State{}
			s.observeVM(o)
			learn(&s)
			s.refresh(at)
			require.Equal(t, entity.ActRead, s.decide(at).Action)
			s.applyRead(contract.ReadVMResult{VM: &now})
			s.refresh(at)
			require.Equal(t, "held by bob", s.Hold.Message)
			require.NotContains(t, []action{entity.ActOpen, entity.ActRead}, s.decide(at).Action)
			_, shown := conditions.Get(s.status().Conditions, contract.ConditionHeld)
			require.True(t, shown)

			s.Hold = nil
			released := at.Add(time.Minute)
			s.Record(contract.OperationRecord{Operation: contract.ControlRelease, Since: released, Until: released})
			later := now
			later.ResourceVersion = "30"
			require.NoError(t, s.conflictsWith(later))
			s.refresh(released)
			require.Equal(t, entity.ActOpen, s.decide(released).Action,
				"its own write of before, whose answer was lost, holds nothing")
			again, since := later, released.Add(time.Minute)
			again.ResourceVersion = "40"
			again.Held = &contract.Condition{Type: contract.ConditionHeld, Status: "True", Message: "held once more",
				LastTransitionTime: &since}
			s.observeVM(again)
			require.Equal(t, entity.ActRead, s.decide(since).Action)
		})
	}
}

// A transition that a restore has undone is cancelled in the new epoch. The desired action is then decided again.
func TestCancelsTransitionUndoneByRestore(t *testing.T) {
	at := time.Unix(1000, 0)
	gone := &contract.VMIObservation{UID: "old", ResourceVersion: "9", Gone: true}
	old := &contract.VMIObservation{UID: "old", ResourceVersion: "8", Phase: "Running"}
	goes := &contract.VMIObservation{UID: "old", ResourceVersion: "8", DeletionTimestamp: &at}
	made := &contract.VMIObservation{UID: "made", ResourceVersion: "10", Phase: "Scheduling"}
	for name, c := range map[string]struct {
		operation   contract.Operation
		known, read *contract.VMIObservation
		want        bool
	}{
		"stop: the deletion is undone":            {contract.OperationStop, goes, old, true},
		"stop: it goes":                           {contract.OperationStop, goes, goes, false},
		"stop: it is gone":                        {contract.OperationStop, goes, nil, false},
		"start: what was made is gone":            {contract.OperationStart, made, nil, true},
		"start: what was made is there":           {contract.OperationStart, made, made, false},
		"start: what was made is seen first":      {contract.OperationStart, nil, made, false},
		"start: the one before is back":           {contract.OperationStart, made, old, true},
		"start: the one before is back, unmade":   {contract.OperationStart, gone, old, true},
		"start: the one before was the last seen": {contract.OperationStart, gone, made, false},
		"restart: the deletion is undone":         {contract.OperationRestart, goes, old, true},
		"restart: the new one is there":           {contract.OperationRestart, made, made, false},
		"restart: there is none":                  {contract.OperationRestart, made, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			vm := contract.VMObservation{UID: "vm", ResourceVersion: "10", RunStrategy: "Always",
				Finalizers: []string{contract.FinalizerVM}}
			s := State{Object: contract.Object{UID: "vm"}, VM: &vm, VMI: c.known, Open: &Transition{VMI: "old"}}
			s.Open.Operation = c.operation
			s.applyRead(contract.ReadVMResult{VM: &vm, VMI: c.read})
			require.Equal(t, c.want, s.Open.Undone)
			if c.want {
				require.Equal(t, entity.ActCancel, s.decide(at).Action)
			}
		})
	}
}

// TestHasUnwrittenReport: an earlier attempt of the same workflow task, whose worker died, may have written the report.
func TestHasUnwrittenReport(t *testing.T) {
	marked := contract.VMIObservation{UID: "i", ResourceVersion: "2", Phase: "Running",
		Conditions: []contract.Condition{{Type: "Ready", Status: "True"}, {Type: "EvictionRequested", Status: "True"}}}
	moving := contract.VMIObservation{UID: "i", ResourceVersion: "2", Phase: "Running",
		Migration: &contract.MigrationState{MigrationUID: "m", Start: time.Unix(1, 0)}}
	starting := marked
	starting.Phase = "Scheduled"
	ready := contract.VMIObservation{UID: "i", ResourceVersion: "3", Phase: "Running",
		Conditions: []contract.Condition{{Type: "Ready", Status: "True"}}}
	for name, c := range map[string]struct {
		was     contract.VMIObservation
		decided bool
		written []contract.Condition
		unknown bool
	}{
		"a condition":               {was: marked, unknown: true},
		"a migration":               {was: moving, unknown: true},
		"decided in between":        {was: marked, decided: true},
		"written":                   {was: marked, written: marked.Conditions},
		"while it starts":           {was: starting},
		"nothing that has not been": {was: contract.VMIObservation{UID: "i", ResourceVersion: "2", Phase: "Running"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{Object: contract.Object{UID: "u"}, VM: &contract.VMObservation{UID: "u"},
				StatusWrites: wrote(contract.VMStatus{PrintableStatus: "Running", Conditions: c.written})}
			s.observeVMI(c.was)
			if c.decided {
				s.refresh(time.Unix(1, 0))
			}
			s.observeVMI(ready)
			require.Equal(t, c.unknown, s.OutcomeUnknown)
		})
	}
}

// TestReadsAfterUnknownVersionIsResent: Temporal has lost a version of the VM that this run does not know, although it
// was delivered, or written by the entity itself. The status is read.
func TestReadsAfterUnknownVersionIsResent(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		again   bool
		stale   bool
	}{
		"as known":           {"2", true, false},
		"older":              {"1", true, false},
		"newer":              {"3", true, true},
		"newer, and no news": {"3", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			vm := contract.VMObservation{UID: "u", ResourceVersion: "2", RunStrategy: "Always"}
			s := State{Object: contract.Object{UID: "u"}, VM: &vm,
				StatusWrites: wrote(contract.VMStatus{PrintableStatus: "Running"})}
			o := vm
			o.ResourceVersion, o.Again = c.version, c.again
			s.observeVM(o)
			require.Equal(t, c.stale, s.Stale)
			if !c.stale {
				return
			}
			require.Equal(t, entity.ActRead, s.decide(time.Unix(1, 0)).Action)
			s.applyRead(contract.ReadVMResult{VM: &vm})
			require.True(t, s.OutcomeUnknown, "the status is written again")
		})
	}
}

// TestAsksOpenTransition: in a new epoch, and when an observation of the VM is resent, the VM asks at once whether its
// transition is still open, because its own state may be that of an older copy of Temporal's database.
func TestAsksOpenTransition(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, change := range map[string]func(*contract.VMObservation){
		"nothing new": nil,
		"a new epoch": func(o *contract.VMObservation) { o.Epoch = 2 },
		"sent again":  func(o *contract.VMObservation) { o.Again = true },
	} {
		t.Run(name, func(t *testing.T) {
			o := contract.VMObservation{UID: "u", ResourceVersion: "1", RunStrategy: "Always", Epoch: 1}
			s := State{}
			s.observeVM(o)
			s.Open = &Transition{Transition: entity.Transition{Detached: true, Asked: now, Asks: 3}}
			if change != nil {
				change(&o)
			}
			s.observeVM(o)
			require.Equal(t, change != nil, s.decide(now).Action == entity.ActAsk)
		})
	}
}

// conflictsWith has a patch return this object instead of the last observed one.
func (s *State) conflictsWith(now contract.VMObservation) error {
	return s.applyPatch(contract.PatchVMInput{ResourceVersion: s.VM.ResourceVersion},
		contract.PatchVMResult{Conflict: true, Current: &now})
}

func wrote(st contract.VMStatus) entity.StatusWrites[contract.VMStatus] {
	return entity.StatusWrites[contract.VMStatus]{Written: &st}
}
