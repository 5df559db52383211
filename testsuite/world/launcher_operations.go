package world

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/kube"
)

const (
	// operateTimeout is how long a node worker waits for a launcher that does not answer.
	operateTimeout = contract.OperationOnNode
	// thawAgain is the launcher's back-off between attempts to thaw a guest.
	thawAgain = 10 * time.Second
	// thawLate is how much later than requested a running guest may thaw.
	thawLate = 30 * time.Second
)

var errHangs = errors.New("the launcher does not answer")

// operator is a node.Operator with the launcher's answer.
type operator struct {
	domain contract.DomainObservation
	err    error
}

// Operate returns the launcher's answer.
func (o operator) Operate(context.Context, contract.OperateDomainInput) (contract.DomainObservation, error) {
	return o.domain, o.err
}

// operateDomain simulates the activity on a node: the node worker finds the launcher, which carries out the operation.
func (r *attempts) operateDomain() (any, error) {
	in, ok := r.input.Interface().(contract.OperateDomainInput)
	if !ok {
		panic("OperateDomain has another input")
	}
	var o operator
	switch l := r.world.launcherOf(in.Pod.UID); {
	case (l == nil || l.dead) && r.number == 1: // the activity has no Temporal context here that has the attempt
		o.err = &node.NotBegunError{Err: errNoLauncher}
	case l == nil || l.dead:
		o.err = errNoLauncher
	case l.hangs:
		r.pause(operateTimeout)
		o.err = errHangs
	default:
		l.followed = true
		o.err = l.operate(in, r.request)
		o.domain = l.domain
	}
	out, err := (&node.Activities{Operator: o}).OperateDomain(context.Background(), in)
	if err != nil {
		fc := temporal.GetDefaultFailureConverter()
		return nil, fc.FailureToError(fc.ErrorToFailure(err))
	}
	return out, nil
}

// operate carries out an operation on the guest, and counts its effects for the request ID, if it belongs to a request.
func (l *launcher) operate(in contract.OperateDomainInput, id string) error {
	switch in.Operation {
	case contract.OperationEnd:
		l.world.checkEnd(l)
		l.terminate(false)
		if in.Grace != nil {
			l.shorten(contract.Grace(in.Grace))
		}
		return nil
	case contract.OperationResize:
		if l.isMoving() {
			return &node.RefusedError{Message: "the guest is being moved to another node"}
		}
		l.world.sizes[l.key()] = in.Claims[0].Capacity
		return nil
	default:
	}
	did := l.world.effects[id]
	did.tried++
	changed, err := l.apply(in)
	if err == nil {
		did.done++
	}
	if changed {
		did.changed++
	}
	l.world.effects[id] = did
	l.world.tracef("launcher %s on %s: %s for %s: changed %t, error %v", l.key(), l.host.name, in.Operation, id,
		changed, err)
	return err
}

// apply changes the guest, and reports whether something has changed.
func (l *launcher) apply(in contract.OperateDomainInput) (bool, error) {
	if !l.running || l.domain.State != contract.DomainRunning && l.domain.State != contract.DomainPaused {
		return false, &node.RefusedError{Message: "it does not run"}
	}
	if l.isMoving() {
		return false, &node.RefusedError{Message: "the guest is being moved to another node"}
	}
	paused := l.domain.State == contract.DomainPaused
	agent := func() error {
		if !l.domain.AgentConnected || paused {
			return &node.RefusedError{Message: "the guest's agent does not answer"}
		}
		return nil
	}
	switch in.Operation {
	case contract.OperationPause:
		if paused {
			return false, nil
		}
		l.change(contract.DomainPaused, "")
		return true, nil
	case contract.OperationUnpause:
		if !paused {
			return false, nil
		}
		l.change(contract.DomainRunning, "")
		return true, nil
	case contract.OperationFreeze:
		if err := agent(); err != nil {
			return false, err
		}
		changed := !l.domain.Frozen
		l.thawBy(time.Duration(in.ThawAfter) * time.Second)
		l.freeze(true)
		return changed, nil
	case contract.OperationUnfreeze:
		if err := agent(); err != nil {
			return false, err
		}
		changed := l.domain.Frozen
		l.thawBy(0)
		l.freeze(false)
		return changed, nil
	case contract.OperationReset, contract.OperationSoftReboot:
		l.world.Pressed[l.key()]++
		l.freeze(false) // the guest boots again, so nothing is frozen
		return true, nil
	default:
		return false, &node.RefusedError{Message: fmt.Sprintf("%q is no operation", string(in.Operation))}
	}
}

// freeze freezes or thaws the guest's file systems.
func (l *launcher) freeze(on bool) {
	if l.domain.Frozen == on {
		return
	}
	if on {
		l.world.Frozen[l.key()]++
	}
	l.domain.Frozen = on
	l.change(l.domain.State, l.domain.Reason)
}

// thawBy lets the guest thaw by itself after a while; 0: never.
func (l *launcher) thawBy(after time.Duration) {
	l.thawing++
	l.thaws = time.Time{}
	if after == 0 {
		return
	}
	l.thaws = l.world.Now().Add(after)
	l.thawIn(after, l.thawing)
}

func (l *launcher) thawIn(after time.Duration, request int) {
	l.after(after, func() {
		switch {
		case request != l.thawing || !l.running:
		case l.domain.State == contract.DomainPaused: // its agent does not answer now
			l.thawIn(thawAgain, request)
		default:
			l.freeze(false)
		}
	})
}

// sampleGuests checks that no guest stays frozen for longer than requested.
func (w *World) sampleGuests() {
	for _, l := range w.domains {
		if l.domain.Frozen && l.domain.State == contract.DomainRunning && !l.thaws.IsZero() && w.Now().
			After(l.thaws.Add(thawLate)) {
			w.breakf("the guest of %s is frozen, and was to thaw by %s", l.key(), l.thaws)
		}
	}
}

// statusMatches checks that a VMI's status matches its running guest.
func statusMatches(w *World, name string) error {
	l, v := w.Launcher(name), w.VMI(name)
	if l == nil || v == nil || v.Status.Phase != kubevirt.Running || !l.host.isAlive() {
		return nil
	}
	said := false
	for _, c := range v.Status.Conditions {
		said = said || c.Type == kubevirt.VirtualMachineInstancePaused && c.Status == corev1.ConditionTrue
	}
	if paused := l.domain.State == contract.DomainPaused; said != paused {
		return fmt.Errorf("VMI %s has condition Paused %t, and its domain is %s", name, said, l.domain.State)
	}
	gate := ""
	if pod := w.podOf(l); pod != nil {
		for _, c := range pod.Status.Conditions {
			if c.Type == contract.ConditionUnpaused {
				gate = string(c.Status)
			}
		}
	}
	if said == (gate == "True") {
		return fmt.Errorf("VMI %s has condition Paused %t, and its pod's readiness gate is %q", name, said,
			gate)
	}
	if frozen := v.Status.FSFreezeStatus == "frozen"; frozen != l.domain.Frozen {
		return fmt.Errorf("VMI %s has fsFreezeStatus frozen %t, and the domain differs", name, frozen)
	}
	return nil
}

// podOf returns the pod that a launcher runs in, or nil.
func (w *World) podOf(l *launcher) *corev1.Pod {
	for _, p := range kube.List[corev1.Pod](w.Kube, l.namespace) {
		if string(p.UID) == l.podUID {
			return p
		}
	}
	return nil
}

// allStatusMatch checks every VMI's status.
func allStatusMatch(w *World) error {
	for _, v := range kube.List[kubevirt.VirtualMachineInstance](w.Kube, Namespace) {
		if err := statusMatches(w, v.Name); err != nil {
			return err
		}
	}
	return nil
}

// hang stops a VMI's launcher from answering, or lets it answer again.
func (w *World) hang(name string, on bool) {
	if l := w.Launcher(name); l != nil {
		w.tracef("launcher of %s: hangs %t", name, on)
		l.hangs = on
	}
}
