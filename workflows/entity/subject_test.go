package entity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// person is a subject with its state; it sends controls by name.
type person struct {
	entity.Manual
	open            *entity.Transition
	unseen, deleted bool
}

func (p *person) subject() entity.Subject {
	return entity.Subject{
		Manual: &p.Manual, Kind: "VirtualMachine", Name: "VM", Follows: "run strategy",
		Seen: func() bool {
			return !p.unseen
		}, Deleting: func() bool { return p.deleted }, Open: func() *entity.Transition { return p.open },
	}
}

// ask checks a control and applies it.
func ask(controls []entity.Control, name string, now time.Time, r contract.ControlRequest) (string, error) {
	for _, c := range controls {
		if c.Name == name {
			if err := c.Check(r); err != nil {
				return "", err
			}
			return c.Apply(now, r)
		}
	}
	panic("no such control: " + name)
}

func alice(reason string) contract.ControlRequest {
	return contract.ControlRequest{Actor: "alice", Reason: reason}
}

func TestHoldAndRelease(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := &person{}
	_, err := ask(p.subject().Controls(), contract.ControlRelease, now, alice(""))
	require.EqualError(t, err, "the VM is not held")
	answer, err := ask(p.subject().Controls(), contract.ControlHold, now, alice("maintenance"))
	require.NoError(t, err)
	require.Equal(t, "No transition is opened until the VM is released.", answer)
	require.Equal(t, "held by alice (claimed): maintenance; the control release ends the hold", p.Hold.Message)
	_, err = ask(p.subject().Controls(), contract.ControlHold, now, alice(""))
	require.EqualError(t, err, "the VM is held already: "+p.Hold.Message)

	shown := p.SetConditions(nil, now)
	require.Len(t, shown, 1)
	require.Equal(t, &entity.Hold{Message: p.Hold.Message, Since: now}, entity.HoldShown(&shown[0]),
		"what outlives Temporal's history")

	answer, err = ask(p.subject().Controls(), contract.ControlRelease, now, alice(""))
	require.NoError(t, err)
	require.Equal(t, "The VM follows its run strategy again.", answer)
	require.Empty(t, p.SetConditions(shown, now))
	require.Nil(t, entity.HoldShown(&contract.Condition{Type: contract.ConditionHeld, Status: "False"}))
	require.Nil(t, entity.HoldShown(nil))
}

func TestRefusesHold(t *testing.T) {
	for want, p := range map[string]*person{
		"the VirtualMachine has not been seen yet": {unseen: true},
		"the VirtualMachine is being deleted":      {deleted: true},
	} {
		_, err := ask(p.subject().Controls(), contract.ControlHold, time.Time{}, alice(""))
		require.EqualError(t, err, want)
	}
}

func TestCancelTransition(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		open    *entity.Transition
		deleted bool
		why     string
	}{
		"an open transition": {open: &entity.Transition{Operation: contract.OperationReplicate}},
		"none":               {why: "no transition is open"},
		"once more": {open: &entity.Transition{Operation: contract.OperationStart,
			CancelReason: "cancelled by bob (claimed)"}, why: "the start is cancelled already"},
		"of a VM that is being deleted": {
			open: &entity.Transition{Operation: contract.OperationStop}, deleted: true,
			why: "the VirtualMachine is being deleted: that cannot be cancelled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &person{open: c.open, deleted: c.deleted}
			answer, err := ask(p.subject().Controls(), contract.ControlCancelTransition, now, alice("wrong selector"))
			if c.why != "" {
				require.EqualError(t, err, c.why)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "The replication is cancelled, and the VM is held until it is released.", answer)
			require.Equal(t, "cancelled by alice (claimed)", p.open.SupersededText())
			require.Contains(t, p.Hold.Message,
				"its replication was cancelled, held by alice (claimed): wrong selector")
		})
	}
}

// TestGuard: a transition that is held, or waits for approval, is not opened; an approval is of one operation, and of
// the object and the instance as they are.
func TestGuard(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := &person{}
	stop := entity.Decision{Action: entity.ActOpen, Operation: contract.OperationStop}
	start := entity.Decision{Action: entity.ActOpen, Operation: contract.OperationStart}
	guard := func(d entity.Decision) entity.Decision {
		return p.subject().Guard(d, func() entity.Decision { return entity.Decision{} })
	}
	approve := entity.Approve(&p.Manual, func() (int64, string) { return 7, "i" })
	require.Equal(t, stop, guard(stop))
	_, err := ask([]entity.Control{approve}, contract.ControlApprove, now, alice(""))
	require.EqualError(t, err, "nothing waits for approval")

	p.AwaitApproval(contract.OperationStop, 7, "i")
	require.Equal(t, "a person: the stop needs approval (annotation "+contract.AnnotationApproval+
		"); the control approve gives it", guard(stop).Waiting.String())
	require.Equal(t, start, guard(start))
	require.Equal(t, "the stop waits for approval; the control approve gives it", p.SetConditions(nil, now)[0].Message)
	_, err = ask([]entity.Control{approve}, contract.ControlApprove, now,
		contract.ControlRequest{Actor: "alice", Operation: contract.OperationStart})
	require.EqualError(t, err, "operation: start does not wait for approval; stop does")
	_, err = ask([]entity.Control{approve}, contract.ControlApprove, now, alice(""))
	require.NoError(t, err)
	require.Equal(t, stop, guard(stop))
	require.Empty(t, p.SetConditions(nil, now))

	given := p.Approved
	for name, now := range map[string]func(){
		"another generation": func() { p.AwaitApproval(contract.OperationStop, 8, "i") },
		"another instance":   func() { p.AwaitApproval(contract.OperationStop, 7, "j") },
		"another operation":  func() { p.AwaitApproval(contract.OperationRestart, 7, "i") },
		"none":               func() { p.AwaitApproval(contract.OperationNone, 7, "i") },
	} {
		p.Approved = given
		now()
		require.Nil(t, p.Approved, name)
	}
	p.Approved = given
	p.AwaitApproval(contract.OperationStop, 7, "i")
	require.Same(t, given, p.Approved)

	p.Hold = &entity.Hold{Message: "held by bob"}
	require.Equal(t, "a person: the VM is held by bob", guard(start).Waiting.String())
}

func TestRetryNow(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var failure *entity.Failure
	waits := false
	c := []entity.Control{entity.RetryNow(&failure, func() bool { return waits }, func(time.Time) { waits = false })}
	_, err := ask(c, contract.ControlRetryNow, now, alice(""))
	require.EqualError(t, err, "nothing failed: no attempt is being waited for")
	failure, waits = &entity.Failure{RetryAt: now.Add(time.Minute)}, true
	_, err = ask(c, contract.ControlRetryNow, now, alice(""))
	require.NoError(t, err)
	require.Equal(t, now, failure.RetryAt)
	require.False(t, waits)
	failure = nil
	_, err = ask([]entity.Control{entity.RetryNow(&failure, nil, nil)}, contract.ControlRetryNow, now, alice(""))
	require.Error(t, err)
}

// TestRepairKeepsItsObject: it can name neither another object nor an invented transition.
func TestRepairKeepsItsObject(t *testing.T) {
	was := entity.Identity[contract.VMObservation]{
		Field: "vm", Kind: "VirtualMachine", Object: contract.Object{Name: "web", UID: "a"},
		Seen: &contract.VMObservation{UID: "a"},
		Next: &contract.VMObservation{UID: "b"},
	}
	for want, change := range map[string]func(*entity.Identity[contract.VMObservation]){
		"object: a repair":    func(i *entity.Identity[contract.VMObservation]) { i.Object.Name = "db" },
		"vm: the observation": func(i *entity.Identity[contract.VMObservation]) { i.Seen = nil },
		"vm.uid: is not": func(i *entity.Identity[contract.VMObservation]) {
			i.Seen = &contract.VMObservation{UID: "c"}
		},
		"next: is another": func(i *entity.Identity[contract.VMObservation]) {
			i.Next = &contract.VMObservation{UID: "c"}
		},
		"open: a transition": func(i *entity.Identity[contract.VMObservation]) { i.Open = true },
		"":                   func(i *entity.Identity[contract.VMObservation]) { i.Next = nil },
	} {
		now := was
		change(&now)
		err := entity.SameObject(was, now)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	open := was
	open.Open = true
	require.ErrorContains(t, entity.SameObject(open, was), "a transition is open")
}
