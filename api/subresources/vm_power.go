package subresources

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Conditions under which KubeVirt starts nothing: a migration of volumes has gone wrong.
const (
	conditionManualRecovery = "ManualRecoveryRequired"
	recoveryText            = "VM recovery required: Volume migration failed, leaving some volumes pointing to " +
		"non-consistent targets; " +
		"manual intervention is needed to reassign them to their original volumes."
)

// shortestGrace is what the guest of a forced restart is given, in seconds: KubeVirt does not write 0.
const shortestGrace = 1

// action is what a request comes to, decided from the objects: nothing is written before it is whole.
type action struct {
	strategy kubevirtv1.VirtualMachineRunStrategy // "": leave
	requests []kubevirtv1.VirtualMachineStateChangeRequest
	grace    *int64 // of the VMI, in seconds; nil: leave
}

// apply writes an action. Where the guest was given less time first, and the rest fails, it gets its time back.
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
				Msg("the guest's grace period stays short")
		}
	}
	return err
}

// vmAndInstance reads a VM and its instance; the latter is nil when there is none.
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

// strategyOf is the effective run strategy.
func strategyOf(vm *kubevirtv1.VirtualMachine) (kubevirtv1.VirtualMachineRunStrategy, error) {
	strategy, err := vm.RunStrategy()
	if err != nil {
		return "", apierrors.NewInternalError(err)
	}
	return strategy, nil
}

func (s *Service) startVM(w http.ResponseWriter, r *Request) error {
	vm, vmi, err := s.vmAndInstance(r)
	if err != nil {
		return err
	}
	var options kubevirtv1.StartOptions
	if err := decode(r, &options); err != nil {
		return err
	}
	dry, err := dryRun(options.DryRun)
	if err != nil {
		return err
	}
	todo, err := decideStart(vm, vmi, options.Paused)
	if err != nil {
		return err
	}
	return accept(w, s.apply(r, vm, vmi, todo, dry))
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
	vm, vmi, err := s.vmAndInstance(r)
	if err != nil {
		return err
	}
	todo, err := decideStop(vm, vmi, options.GracePeriod)
	if err != nil {
		return err
	}
	return accept(w, s.apply(r, vm, vmi, todo, dry))
}

func decideStop(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, grace *int64) (action, error) {
	strategy, err := strategyOf(vm)
	if err != nil {
		return action{}, err
	}
	live := vmi != nil && !vmi.IsFinal()
	var todo action
	if live {
		todo.grace = grace
	}
	switch strategy {
	case kubevirtv1.RunStrategyHalted:
		// The guest is going down already; it can only be given less time for it.
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
	vm, vmi, err := s.vmAndInstance(r)
	if err != nil {
		return err
	}
	todo, err := decideRestart(vm, vmi, force)
	if err != nil {
		return err
	}
	return accept(w, s.apply(r, vm, vmi, todo, dry))
}

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
	if vmi == nil {
		return action{}, VMConflict(vm.Name, fmt.Sprintf("VM is not running: %v", kubevirtv1.RunStrategyHalted))
	}
	todo := action{requests: []kubevirtv1.VirtualMachineStateChangeRequest{stopOf(vmi),
		{Action: kubevirtv1.StartRequest}}}
	if force {
		todo.grace = new(int64(shortestGrace))
	}
	return todo, nil
}

// stopOf asks for the end of one instance.
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

// accept answers 202 without a body, as KubeVirt does to what becomes desired state.
func accept(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusAccepted)
	}
	return err
}
