package subresources

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Conditions under which KubeVirt starts nothing: a migration of volumes has failed.
const (
	conditionManualRecovery = "ManualRecoveryRequired"
	recoveryText            = "VM recovery required: Volume migration failed, leaving some volumes pointing to " +
		"non-consistent targets; " +
		"manual intervention is needed to reassign them to their original volumes."
)

// shortestGrace is the grace period of a forced restart, in seconds: KubeVirt does not write 0.
const shortestGrace = 1

// action is the effect of a request, decided from the objects: nothing is written before it is complete.
type action struct {
	strategy kubevirtv1.VirtualMachineRunStrategy // "": unchanged
	requests []kubevirtv1.VirtualMachineStateChangeRequest
	grace    *int64 // of the VMI, in seconds; nil: unchanged
}

// change reads a VM and its instance, decides, and writes the decision. On a conflict it reads and decides again, some
// times: a client that makes a VM and starts it at once conflicts with the VM's first status.
func (s *Service) change(r *Request,
	decide func(*kubevirtv1.VirtualMachine, *kubevirtv1.VirtualMachineInstance) (todo action, dry bool, err error),
) error {
	var changed *changedError
	err := retry.OnError(retry.DefaultRetry, func(err error) bool { return errors.As(err, &changed) }, func() error {
		vm, vmi, err := s.vmAndInstance(r)
		if err != nil {
			return err
		}
		todo, dry, err := decide(vm, vmi)
		if err != nil {
			return err
		}
		return s.apply(r, vm, vmi, todo, dry)
	})
	if errors.As(err, &changed) {
		return changed.answer
	}
	return err
}

// apply writes an action. If it has shortened the guest's grace period first, and the rest fails, it restores it.
func (s *Service) apply(
	r *Request, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, todo action, dry bool,
) error {
	var steps []step
	if todo.strategy != "" {
		steps = strategyPatch(vm, todo.strategy, r.User.Name)
	} else {
		var err error
		if steps, err = requestPatch(vm, r.User.Name, todo.requests...); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	if todo.grace != nil {
		if err := s.patchGrace(r.Context(), vmi, todo.grace, dry); err != nil {
			return err
		}
	}
	err := s.patchVM(r.Context(), vm, todo.strategy == "", dry, steps)
	if err != nil && todo.grace != nil && !dry {
		if back := s.patchGrace(context.WithoutCancel(r.Context()), vmi, vmi.Spec.TerminationGracePeriodSeconds,
			false); back != nil {
			s.Log.Warn().Err(back).Str("namespace", vmi.Namespace).Str("name", vmi.Name).
				Msg("failed to restore grace period of guest")
		}
	}
	return err
}

// vmAndInstance reads a VM and its instance; the latter is nil if there is none.
func (s *Service) vmAndInstance(r *Request) (*kubevirtv1.VirtualMachine, *kubevirtv1.VirtualMachineInstance, error) {
	vm, err := s.VM(r.Context(), r.Namespace, r.Name)
	if err != nil {
		return nil, nil, err
	}
	vmi, err := s.VMI(r.Context(), r.Namespace, r.Name)
	if apierrors.IsNotFound(err) {
		return vm, nil, nil
	}
	return vm, vmi, err
}

// strategyOf returns the effective run strategy.
func strategyOf(vm *kubevirtv1.VirtualMachine) (kubevirtv1.VirtualMachineRunStrategy, error) {
	strategy, err := vm.RunStrategy()
	if err != nil {
		return "", apierrors.NewInternalError(err)
	}
	return strategy, nil
}

func (s *Service) startVM(w http.ResponseWriter, r *Request) error {
	var options kubevirtv1.StartOptions
	read := sync.OnceValues(func() (bool, error) { // once the VM is known to exist
		if err := decode(r, &options); err != nil {
			return false, err
		}
		return dryRun(options.DryRun)
	})
	return accept(w, s.change(r, func(
		vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance,
	) (action, bool, error) {
		dry, err := read()
		if err != nil {
			return action{}, false, err
		}
		todo, err := decideStart(vm, vmi, options.Paused)
		return todo, dry, err
	}))
}

func decideStart(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, paused bool) (action, error) {
	if vmi != nil && !vmi.IsFinal() && vmi.Status.Phase != kubevirtv1.Unknown &&
		vmi.Status.Phase != kubevirtv1.VmPhaseUnset {
		return action{}, VMConflict(vm.Name, "VM is already running")
	}
	if hasCondition(vm, conditionManualRecovery) {
		return action{}, VMConflict(vm.Name, recoveryText)
	}
	start := kubevirtv1.VirtualMachineStateChangeRequest{Action: kubevirtv1.StartRequest}
	if paused {
		start.Data = map[string]string{kubevirtv1.StartRequestDataPausedKey: kubevirtv1.StartRequestDataPausedTrue}
	}
	strategy, err := strategyOf(vm)
	if err != nil {
		return action{}, err
	}
	switch strategy {
	case kubevirtv1.RunStrategyHalted:
		if paused {
			return action{requests: []kubevirtv1.VirtualMachineStateChangeRequest{start}}, nil
		}
		return action{strategy: kubevirtv1.RunStrategyAlways}, nil
	case kubevirtv1.RunStrategyRerunOnFailure:
		if vmi != nil && vmi.Status.Phase == kubevirtv1.Failed {
			return action{}, VMConflict(vm.Name, "RerunOnFailure does not support starting VM from failed state")
		}
		if vmi != nil && vmi.Status.Phase == kubevirtv1.Succeeded {
			return action{requests: []kubevirtv1.VirtualMachineStateChangeRequest{stopOf(vmi), start}}, nil
		}
		return action{requests: []kubevirtv1.VirtualMachineStateChangeRequest{start}}, nil
	case kubevirtv1.RunStrategyManual:
		if vmi != nil && vmi.IsFinal() {
			return action{requests: []kubevirtv1.VirtualMachineStateChangeRequest{stopOf(vmi), start}}, nil
		}
		return action{requests: []kubevirtv1.VirtualMachineStateChangeRequest{start}}, nil
	default:
		return action{}, VMConflict(vm.Name, fmt.Sprintf("%v does not support manual start requests", strategy))
	}
}

func (s *Service) stopVM(w http.ResponseWriter, r *Request) error {
	var options kubevirtv1.StopOptions
	if err := decode(r, &options); err != nil {
		return err
	}
	dry, err := dryRun(options.DryRun)
	if err != nil {
		return err
	}
	if options.GracePeriod != nil && *options.GracePeriod < 0 {
		return apierrors.NewBadRequest("gracePeriod has to be greater or equal to 0")
	}
	return accept(w, s.change(r, func(
		vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance,
	) (action, bool, error) {
		todo, err := decideStop(vm, vmi, options.GracePeriod)
		return todo, dry, err
	}))
}

// decideStop decides about the VM's own instance: a user who may stop a VM must not shorten the grace period of another
// owner's instance that has the VM's name.
func decideStop(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, grace *int64) (action, error) {
	strategy, err := strategyOf(vm)
	if err != nil {
		return action{}, err
	}
	live := vmi != nil && !vmi.IsFinal() && isOwnedBy(vmi, vm)
	var todo action
	if live {
		todo.grace = grace
	}
	switch strategy {
	case kubevirtv1.RunStrategyHalted:
		// The guest is shutting down already; only its grace period can be shortened.
		if !live {
			return action{}, VMConflict(vm.Name, "VM is not running")
		}
		if now := vmi.Spec.TerminationGracePeriodSeconds; grace == nil || now != nil && *grace >= *now {
			return action{}, VMConflict(vm.Name,
				fmt.Sprintf("%v only supports manual stop requests with a shorter graceperiod", strategy))
		}
		todo.requests = []kubevirtv1.VirtualMachineStateChangeRequest{stopOf(vmi)}
	case kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyManual:
		if !live {
			return action{}, VMConflict(vm.Name, "VM is not running")
		}
		todo.requests = []kubevirtv1.VirtualMachineStateChangeRequest{stopOf(vmi)}
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyOnce:
		todo.strategy = kubevirtv1.RunStrategyHalted
	default:
		return action{}, VMConflict(vm.Name, fmt.Sprintf("%v does not support manual stop requests", strategy))
	}
	return todo, nil
}

func (s *Service) restartVM(w http.ResponseWriter, r *Request) error {
	var options kubevirtv1.RestartOptions
	if err := decode(r, &options); err != nil {
		return err
	}
	dry, err := dryRun(options.DryRun)
	if err != nil {
		return err
	}
	force := false
	if grace := options.GracePeriodSeconds; grace != nil {
		switch {
		case *grace > 0:
			return apierrors.NewBadRequest("For force restart, only gracePeriod=0 is supported for now")
		case *grace < 0:
			return apierrors.NewBadRequest("gracePeriod has to be greater or equal to 0")
		}
		force = true
	}
	return accept(w, s.change(r, func(
		vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance,
	) (action, bool, error) {
		todo, err := decideRestart(vm, vmi, force)
		return todo, dry, err
	}))
}

// decideRestart decides about the VM's own instance, as decideStop does.
func decideRestart(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, force bool) (action, error) {
	if hasCondition(vm, string(kubevirtv1.VirtualMachineInstanceVolumesChange)) {
		return action{}, VMConflict(vm.Name, recoveryText)
	}
	strategy, err := strategyOf(vm)
	if err != nil {
		return action{}, err
	}
	if strategy == kubevirtv1.RunStrategyHalted || strategy == kubevirtv1.RunStrategyOnce {
		return action{}, VMConflict(vm.Name,
			fmt.Sprintf("RunStategy %v does not support manual restart requests", strategy))
	}
	if vmi == nil || !isOwnedBy(vmi, vm) {
		return action{}, VMConflict(vm.Name, "VM is not running: "+notRunning(vm))
	}
	todo := action{requests: []kubevirtv1.VirtualMachineStateChangeRequest{stopOf(vmi),
		{Action: kubevirtv1.StartRequest}}}
	if force {
		todo.grace = new(int64(shortestGrace))
	}
	return todo, nil
}

// notRunning returns why a VM has no instance to restart: in KubeVirt's words if it is stopped, whatever its run
// strategy.
func notRunning(vm *kubevirtv1.VirtualMachine) string {
	switch status := vm.Status.PrintableStatus; status {
	case "", kubevirtv1.VirtualMachineStatusStopped:
		return string(kubevirtv1.RunStrategyHalted)
	case kubevirtv1.VirtualMachineStatusCrashLoopBackOff:
		text := string(status) + ", its instances end before they run"
		if f := vm.Status.StartFailure; f != nil && f.RetryAfterTimestamp != nil {
			text += "; the next start is at " + f.RetryAfterTimestamp.UTC().Format(time.RFC3339) +
				", or at once with the control retry-now"
		}
		return text
	default:
		return string(status)
	}
}

// stopOf returns the request for the end of one instance.
func stopOf(vmi *kubevirtv1.VirtualMachineInstance) kubevirtv1.VirtualMachineStateChangeRequest {
	return kubevirtv1.VirtualMachineStateChangeRequest{Action: kubevirtv1.StopRequest, UID: new(vmi.UID)}
}

func hasCondition(vm *kubevirtv1.VirtualMachine, kind string) bool {
	for _, c := range vm.Status.Conditions {
		if string(c.Type) == kind && c.Status == "True" {
			return true
		}
	}
	return false
}

// accept answers 202 without a body, as KubeVirt does for changes of the desired state.
func accept(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusAccepted)
	}
	return err
}
