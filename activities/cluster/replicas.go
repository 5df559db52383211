package cluster

import (
	"context"
	"errors"
	"sync"

	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/instance"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// atOnce is how many requests for replicas are under way at a time, at most.
const atOnce = 8

// replicaSet reads a set that is the one meant, and not being deleted.
func (a *Activities) replicaSet(ctx context.Context, in contract.Object) (*kubevirt.VirtualMachineInstanceReplicaSet, error) {
	set, err := a.KubeVirt.ReplicaSets(in.Namespace).Get(ctx, in.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, failure("reading VirtualMachineInstanceReplicaSet "+in.Name, err)
	case string(set.UID) != in.UID:
		return nil, gone("VirtualMachineInstanceReplicaSet %s is another one by now (UID %s)", in.Name, set.UID)
	case set.DeletionTimestamp != nil:
		return nil, gone("VirtualMachineInstanceReplicaSet %s is being deleted", in.Name)
	}
	return set, nil
}

// selecting reads such a set, and its selector.
func (a *Activities) selecting(ctx context.Context, in contract.Object) (*kubevirt.VirtualMachineInstanceReplicaSet, labels.Selector, error) {
	set, err := a.replicaSet(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	selector, err := observe.Selector(set)
	if err != nil {
		return nil, nil, final(contract.ErrorInvalid, "reading the selector of VirtualMachineInstanceReplicaSet "+set.Name+": "+err.Error())
	}
	return set, selector, nil
}

// CreateReplicas makes a batch of a set's instances: one, then two at a time, then four, and so on, until one is refused. (As
// Kubernetes' own controllers do: what a quota refuses once it would refuse each time.)
// Idempotent: each has a name derived from the set's UID and its ordinal; one that is there already is counted as made.
func (a *Activities) CreateReplicas(ctx context.Context, in contract.CreateReplicasInput) (contract.CreateReplicasResult, error) {
	var out contract.CreateReplicasResult
	set, err := a.replicaSet(ctx, in.Set)
	if err != nil {
		return out, err
	}
	if set.Generation < in.Generation {
		return out, temporal.NewApplicationError("VirtualMachineInstanceReplicaSet "+in.Set.Name+" was read before its last change", errorKubernetes)
	}
	var mu sync.Mutex
	err = inWaves(in.Count, func(i int) error {
		ordinal := in.From + i
		taken, err := a.createReplica(ctx, set, ordinal, in)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			return err
		case taken:
			out.Taken = append(out.Taken, ordinal)
		default:
			out.Made++
		}
		return nil
	})
	return out, a.orRefused(ctx, in.Set, err, &out.Refused, func(message string) contract.Event {
		return warning("FailedCreate", "Error creating virtual machine instance: "+message)
	})
}

// createReplica makes one. Taken: somebody else's object has its name.
func (a *Activities) createReplica(ctx context.Context, set *kubevirt.VirtualMachineInstanceReplicaSet, ordinal int, in contract.CreateReplicasInput) (taken bool, err error) {
	vmi, err := instance.NewReplica(set, ordinal, a.Settings(), instance.Request{Actor: in.Actor, Now: a.Now()})
	if err != nil {
		return false, final(contract.ErrorInvalid, err.Error())
	}
	vmis := a.KubeVirt.VMIs(set.Namespace)
	made, err := vmis.Create(ctx, vmi, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		there, err := vmis.Get(ctx, vmi.Name, metav1.GetOptions{})
		if err != nil {
			return false, temporal.NewApplicationError("VirtualMachineInstance "+vmi.Name+" was there a moment ago", errorKubernetes)
		}
		ref := observe.OwnerSet(there)
		return ref == nil || ref.UID != set.UID || observe.Ordinal(there) != ordinal, nil
	}
	if err != nil {
		return false, failure("creating VirtualMachineInstance "+vmi.Name, err)
	}
	a.fresh.Add(string(made.UID), made.DeepCopy(), freshFor)
	a.events.tell(ctx, kindVMIRS, in.Set, normal("SuccessfulCreate",
		"Started the virtual machine by creating the new virtual machine instance "+made.Name), string(made.UID))
	return false, nil
}

// DeleteReplicas deletes a batch of a set's instances; their own finalizers hold each until its pod has ended. Those of a set that is being
// deleted are the garbage collector's.
// Idempotent: neither a newer instance of a name is touched, nor one that the set controls no more, nor one that its selector matches no more.
func (a *Activities) DeleteReplicas(ctx context.Context, in contract.DeleteReplicasInput) (contract.DeleteReplicasResult, error) {
	var out contract.DeleteReplicasResult
	_, selector, err := a.selecting(ctx, in.Set)
	if err != nil {
		return out, err
	}
	aside := func(vmi *kubevirt.VirtualMachineInstance) bool { return !selector.Matches(labels.Set(vmi.Labels)) }
	var mu sync.Mutex
	all := append(append([]contract.Object{}, in.Remove...), in.Finished...)
	err = inWaves(len(all), func(i int) error {
		err := a.deleteReplica(ctx, in.Set, all[i], i >= len(in.Remove), aside)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		out.Deleted++
		return nil
	})
	return out, a.orRefused(ctx, in.Set, err, &out.Refused, func(message string) contract.Event {
		return warning("FailedDelete", "Error deleting virtual machine instance: "+message)
	})
}

func (a *Activities) deleteReplica(ctx context.Context, set, vmi contract.Object, finished bool, aside func(*kubevirt.VirtualMachineInstance) bool) error {
	vmi.Namespace = set.Namespace
	found, err := a.deleteVMI(ctx, vmi, set.UID, aside)
	if err != nil {
		return failure("deleting VirtualMachineInstance "+vmi.Name, err)
	}
	if found.fate != fateDeleted {
		return nil
	}
	text := "Stopped the virtual machine by deleting the virtual machine instance " + vmi.UID
	if finished {
		text = "Deleted finished virtual machine: " + vmi.UID
	}
	a.events.tell(ctx, kindVMIRS, set, normal("SuccessfulDelete", text), vmi.UID)
	return nil
}

// orRefused sorts what stopped a batch: a refusal is a result, so that what was done before it is known; anything else is an error and
// the whole batch is tried again. An event tells of a refusal, once per text.
func (a *Activities) orRefused(ctx context.Context, set contract.Object, err error, refused **contract.Refusal, event func(string) contract.Event) error {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return err
	}
	a.events.tell(ctx, kindVMIRS, set, event(app.Message()), app.Message())
	if app.Type() != contract.ErrorForbidden && app.Type() != contract.ErrorInvalid {
		return err
	}
	*refused = &contract.Refusal{Type: app.Type(), Message: app.Message()}
	return nil
}

// inWaves calls do for 0 up to n-1: for one, then for twice as many each time. It stops after a wave in which one failed, with the first
// error by number.
func inWaves(n int, do func(int) error) error {
	for begin, size := 0, 1; begin < n; begin, size = begin+size, min(2*size, atOnce) {
		size = min(size, n-begin)
		failures := make([]error, size)
		var wg sync.WaitGroup
		for i := range size {
			wg.Go(func() { failures[i] = do(begin + i) })
		}
		wg.Wait()
		for _, err := range failures {
			if err != nil {
				return err
			}
		}
	}
	return nil
}
