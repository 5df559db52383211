package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"

	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/instance"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// concurrentRequests limits how many requests for replicas are under way at a time.
const concurrentRequests = 8

// readReplicaSet reads the set of that UID, unless it is being deleted.
func (a *Activities) readReplicaSet(
	ctx context.Context, in contract.Object,
) (*kubevirt.VirtualMachineInstanceReplicaSet, error) {
	set, err := a.KubeVirt.ReplicaSets(in.Namespace).Get(ctx, in.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, failure("reading VirtualMachineInstanceReplicaSet "+in.Name, err)
	case string(set.UID) != in.UID:
		return nil, goneError("VirtualMachineInstanceReplicaSet %s is another one by now (UID %s)", in.Name, set.UID)
	case set.DeletionTimestamp != nil:
		return nil, goneError("VirtualMachineInstanceReplicaSet %s is being deleted", in.Name)
	}
	return set, nil
}

// readSelecting reads a replica set and its selector.
func (a *Activities) readSelecting(
	ctx context.Context, in contract.Object,
) (*kubevirt.VirtualMachineInstanceReplicaSet, labels.Selector, error) {
	set, err := a.readReplicaSet(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	selector, err := observe.Selector(set)
	if err != nil {
		return nil, nil, nonRetryable(contract.ErrorInvalid,
			"reading the selector of VirtualMachineInstanceReplicaSet "+set.Name+": "+err.Error())
	}
	return set, selector, nil
}

// CreateReplicas makes a batch of a set's instances: one, then two at a time, then four, and so on, until one is
// refused. (As Kubernetes' own controllers do: what a quota refuses once it would refuse each time.) None is made for
// a set that asks for something else by now. Idempotent: each has a name derived from the set's UID and its ordinal;
// one that is there already is counted as made.
func (a *Activities) CreateReplicas(
	ctx context.Context, in contract.CreateReplicasInput,
) (contract.CreateReplicasResult, error) {
	var out contract.CreateReplicasResult
	set, err := a.readReplicaSet(ctx, in.Set)
	if err != nil {
		return out, err
	}
	if set.Generation < in.Generation {
		return out, temporal.NewApplicationError("VirtualMachineInstanceReplicaSet "+in.Set.Name+
			" was read before its last change", errorKubernetes)
	}
	if in.Generation != 0 && set.Generation > in.Generation {
		seen := observe.ReplicaSet(set)
		out.Set = &seen
		return out, nil
	}
	var mu sync.Mutex
	err = runInWaves(in.Count, func(i int) error {
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
	return out, a.refusalResult(in.Set, err, &out.Refused, func(message string) contract.Event {
		return warningEvent(contract.ReasonFailedCreate, "Error creating virtual machine instance: "+message)
	})
}

// createReplica creates one replica. Taken: another owner's object has its name.
func (a *Activities) createReplica(
	ctx context.Context, set *kubevirt.VirtualMachineInstanceReplicaSet, ordinal int, in contract.CreateReplicasInput,
) (taken bool, err error) {
	vmi, err := instance.NewReplica(set, ordinal, a.Settings(), instance.Request{Actor: in.Actor, Now: a.Now()})
	if err != nil {
		return false, nonRetryable(contract.ErrorInvalid, err.Error())
	}
	vmis := a.KubeVirt.VMIs(set.Namespace)
	made, err := vmis.Create(ctx, vmi, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		there, err := vmis.Get(ctx, vmi.Name, metav1.GetOptions{})
		if err != nil {
			return false, temporal.NewApplicationError("VirtualMachineInstance "+vmi.Name+" was there a moment ago",
				errorKubernetes)
		}
		ref := observe.OwnerSet(there)
		return ref == nil || ref.UID != set.UID || observe.Ordinal(there) != ordinal, nil
	}
	if err != nil {
		return false, creationFailure("creating VirtualMachineInstance "+vmi.Name, err)
	}
	a.fresh.Add(string(made.UID), made.DeepCopy(), freshFor)
	a.recordEvent(kindVMIRS, in.Set, normalEvent("SuccessfulCreate",
		"Started the virtual machine by creating the new virtual machine instance "+made.Name), string(made.UID))
	return false, nil
}

// DeleteReplicas deletes a batch of a set's instances; their own finalizers hold each until its pod has ended. The
// caller may remember what is true no longer. So the set and its instances are read: as many go as there are too many
// now, and those that have ended now. The others are kept, and all are while the set is paused. Those of a set that is
// being deleted are the garbage collector's. Idempotent: neither a newer instance of a name is touched, nor one that
// the set controls no more, nor one that its selector matches no more.
func (a *Activities) DeleteReplicas(
	ctx context.Context, in contract.DeleteReplicasInput,
) (contract.DeleteReplicasResult, error) {
	var out contract.DeleteReplicasResult
	set, selector, err := a.readSelecting(ctx, in.Set)
	if err != nil {
		return out, err
	}
	there, err := a.listPresent(ctx, set, selector)
	if err != nil {
		return out, err
	}
	seen := observe.ReplicaSet(set)
	chosen, kept := selectDispensable(in, there, seen)
	if kept > 0 {
		out.Set = &seen
	}
	out.Deleted = len(in.Remove) + len(in.Finished) - kept - len(chosen)
	var mu sync.Mutex
	err = runInWaves(len(chosen), func(i int) error {
		if err := a.deleteReplica(ctx, in.Set, selector, chosen[i]); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		out.Deleted++
		return nil
	})
	return out, a.refusalResult(in.Set, err, &out.Refused, func(message string) contract.Event {
		return warningEvent(contract.ReasonFailedDelete, "Error deleting virtual machine instance: "+message)
	})
}

// listPresent returns the instances that a set controls and its selector matches, by UID, without those that are being
// deleted.
func (a *Activities) listPresent(
	ctx context.Context, set *kubevirt.VirtualMachineInstanceReplicaSet, selector labels.Selector,
) (map[string]contract.ReplicaObservation, error) {
	out := map[string]contract.ReplicaObservation{}
	for page := ""; ; {
		list, err := a.KubeVirt.VMIs(set.Namespace).
			List(ctx, metav1.ListOptions{LabelSelector: selector.String(), Limit: pageSize, Continue: page})
		if err != nil {
			return nil, failure("listing the VirtualMachineInstances of namespace "+set.Namespace, err)
		}
		for i := range list.Items {
			if r := observe.Replica(&list.Items[i], selector); isCurrentReplica(r, string(set.UID)) {
				out[r.UID] = r
			}
		}
		if page = list.Continue; page == "" {
			return out, nil
		}
	}
}

func isCurrentReplica(r contract.ReplicaObservation, set string) bool {
	return r.OwnerUID == set && r.Matches && !r.Deleting
}

// selectDispensable returns the replicas of a batch that may be deleted in the current state, and how many are kept.
// Replicas that are gone need nothing more.
func selectDispensable(in contract.DeleteReplicasInput, there map[string]contract.ReplicaObservation,
	set contract.ReplicaSetObservation) (
	chosen []contract.ReplicaObservation, kept int,
) {
	excess := -set.Replicas
	for _, r := range there {
		if r.CountsFor(set.UID) {
			excess++
		}
	}
	for i, o := range slices.Concat(in.Remove, in.Finished) {
		r, ok := there[o.UID]
		counts := r.CountsFor(set.UID)
		switch {
		case !ok:
		case set.Paused, counts && (excess <= 0 || i >= len(in.Remove)):
			kept++
		default:
			if counts {
				excess--
			}
			chosen = append(chosen, r)
		}
	}
	return chosen, kept
}

// deleteReplica deletes an instance in the version that was read, and reads it again if that has changed. One that was
// chosen because it had ended stays dispensable: an end is final.
func (a *Activities) deleteReplica(
	ctx context.Context, set contract.Object, selector labels.Selector, chosen contract.ReplicaObservation,
) error {
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: chosen.Name, UID: types.UID(chosen.UID),
		ResourceVersion: chosen.ResourceVersion,
	}}
	for range maxReads {
		err := a.deleteVersion(ctx, vmi)
		if err == nil {
			text := "Stopped the virtual machine by deleting the virtual machine instance " + chosen.UID
			if !chosen.CountsFor(set.UID) {
				text = "Deleted finished virtual machine: " + chosen.UID
			}
			a.recordEvent(kindVMIRS, set, normalEvent("SuccessfulDelete", text), chosen.UID)
			return nil
		}
		if apierrors.IsConflict(err) {
			vmi, err = a.KubeVirt.VMIs(set.Namespace).Get(ctx, chosen.Name, metav1.GetOptions{})
		}
		switch {
		case apierrors.IsNotFound(err), err == nil && string(vmi.UID) != chosen.UID:
			return nil
		case err != nil:
			return failure("deleting VirtualMachineInstance "+chosen.Name, err)
		case !isCurrentReplica(observe.Replica(vmi, selector), set.UID):
			return nil
		}
	}
	return failure("deleting VirtualMachineInstance "+chosen.Name, errUnsettled)
}

// refusalResult sorts the error that stopped a batch: a refusal is a result, so that what was done before it is known;
// anything else is an error and the whole batch is retried. An event reports a refusal, once per text.
func (a *Activities) refusalResult(
	set contract.Object, err error, refused **contract.Refusal, event func(string) contract.Event,
) error {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return err
	}
	a.recordEvent(kindVMIRS, set, event(app.Message()), app.Message())
	if app.Type() != contract.ErrorForbidden && app.Type() != contract.ErrorInvalid {
		return err
	}
	*refused = &contract.Refusal{Type: app.Type(), Message: app.Message()}
	return nil
}

// runInWaves calls do for 0 up to n-1: for one, then for twice as many each time. It stops after a wave in which one
// failed, with the first error by number.
func runInWaves(n int, do func(int) error) error {
	for begin, size := 0, 1; begin < n; begin, size = begin+size, min(2*size, concurrentRequests) {
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
