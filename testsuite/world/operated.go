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
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	// operateTimeout is how long a node's worker waits for a launcher that does not answer.
	operateTimeout = contract.OperationOnNode
	// thawAgain is the launcher's pause between attempts to thaw a guest whose time has come.
	thawAgain = 10 * time.Second
	// thawLate is how much later than asked for a guest that runs may thaw.
	thawLate = 30 * time.Second
)

var errHangs = errors.New("the launcher does not answer")

// operator is the node worker's side of OperateDomain once the launcher has answered.
type operator struct {
	domain contract.DomainObservation
	err    error
}

// Operate answers as the launcher did.
func (o operator) Operate(context.Context, contract.OperateDomainInput) (contract.DomainObservation, error) {
	return o.domain, o.err
}

// operateDomain is the activity on a node: its worker finds the launcher, and has it do one thing.
func (r *attempts) operateDomain() (any, error) {
	in, ok := r.input.Interface().(contract.OperateDomainInput)
	if !ok {
		panic("OperateDomain has another input")
	}
	var o operator
	switch l := r.world.launcherOf(in.Pod.UID); {
	case (l == nil || l.dead) && r.number == 1: // no context of Temporal's tells the activity which attempt it is
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

// operate does one thing to the guest, on behalf of the request of that ID, unless it is nobody's request.
func (l *launcher) operate(in contract.OperateDomainInput, id string) error {
	switch in.Operation {
	case contract.OperationEnd:
		l.world.checkEnd(l)
		l.terminate(false)
		return nil
	case contract.OperationResize:
		if l.moves() {
			return &node.RefusedError{Message: "the guest is being moved to another node"}
		}
		l.world.sizes[l.key()] = in.Claims[0].Capacity
		return nil
	default:
	}
	did := l.world.effects[id]
	did.tried++
	changed, err := l.done(in)
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

// done reports whether something has changed.
func (l *launcher) done(in contract.OperateDomainInput) (bool, error) {
	if !l.running || l.domain.State != contract.DomainRunning && l.domain.State != contract.DomainPaused {
		return false, &node.RefusedError{Message: "it does not run"}
	}
	if l.moves() {
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
		l.freeze(false) // whatever was frozen, another system boots now
		return true, nil
	default:
		return false, &node.RefusedError{Message: fmt.Sprintf("%q is no operation", string(in.Operation))}
	}
}

// freeze holds the guest's writing, or lets it go on.
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

// thawBy lets the guest thaw by itself after a while; 0: not.
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

// sampleGuests: what was frozen for a time is not frozen for longer.
func (w *World) sampleGuests() {
	for _, l := range w.domains {
		if l.domain.Frozen && l.domain.State == contract.DomainRunning && !l.thaws.IsZero() && w.Now().
			After(l.thaws.Add(thawLate)) {
			w.breakf("the guest of %s is frozen, and was to thaw by %s", l.key(), l.thaws)
		}
	}
}

// shown: what a VMI says of a running guest is how it is.
func shown(w *World, name string) error {
	l, v := w.Launcher(name), w.VMI(name)
	if l == nil || v == nil || v.Status.Phase != kubevirt.Running || !l.host.alive() {
		return nil
	}
	said := false
	for _, c := range v.Status.Conditions {
		said = said || c.Type == kubevirt.VirtualMachineInstancePaused && c.Status == corev1.ConditionTrue
	}
	if paused := l.domain.State == contract.DomainPaused; said != paused {
		return fmt.Errorf("VMI %s says that its guest is paused: %t, and the domain is %s", name, said, l.domain.State)
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
		return fmt.Errorf("VMI %s says that its guest is paused: %t, and its pod's readiness gate is %q", name, said,
			gate)
	}
	if frozen := v.Status.FSFreezeStatus == "frozen"; frozen != l.domain.Frozen {
		return fmt.Errorf("VMI %s says that its guest is frozen: %t, and it is not so", name, frozen)
	}
	return nil
}

// podOf is the pod that a launcher runs in, or nil.
func (w *World) podOf(l *launcher) *corev1.Pod {
	for _, p := range kube.List[corev1.Pod](w.Kube, l.namespace) {
		if string(p.UID) == l.podUID {
			return p
		}
	}
	return nil
}

// allShown asks that of every VMI.
func allShown(w *World) error {
	for _, v := range kube.List[kubevirt.VirtualMachineInstance](w.Kube, Namespace) {
		if err := shown(w, v.Name); err != nil {
			return err
		}
	}
	return nil
}

// hang makes a VMI's launcher silent, or lets it answer again.
func (w *World) hang(name string, on bool) {
	if l := w.Launcher(name); l != nil {
		w.tracef("launcher of %s: hangs %t", name, on)
		l.hangs = on
	}
}
