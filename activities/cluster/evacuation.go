package cluster

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// FindEvacuees lists the instances on a node that have to leave it: those that can move first, the smallest of them
// first, since they take the least time; of the same size the oldest.
func (a *Activities) FindEvacuees(
	ctx context.Context, in contract.FindEvacueesInput,
) (contract.FindEvacueesResult, error) {
	settings := a.Settings()
	out := contract.FindEvacueesResult{Outbound: settings.Migrations().PerNode}
	var there []contract.Movable
	selector := labels.SelectorFromSet(labels.Set{kubevirt.NodeNameLabel: in.Node}).String()
	err := a.eachInstance(ctx, selector, func(vmi *kubevirt.VirtualMachineInstance) error {
		if vmi.Status.NodeName == in.Node && !vmi.IsFinal() &&
			(in.Scope != contract.ScopeMarked || isMarked(vmi, in.Node)) {
			there = append(there, evacuee(vmi, in.Node, string(settings.EvictionStrategy())))
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	out.Evacuees, out.More, err = a.listMovables(ctx, there, in.Priority,
		func(m *contract.Movable, by *kubevirt.VirtualMachineInstanceMigration) {
			m.Evacuates = by.Annotations[contract.AnnotationEvacuation] == in.Node
		})
	return out, err
}

// evacuee returns what a drain needs of an instance, except its migrations.
func evacuee(vmi *kubevirt.VirtualMachineInstance, node, strategy string) contract.Movable {
	m := movable(vmi)
	m.Strategy, m.Marked, m.Descheduled = strategy, isMarked(vmi, node), isDescheduled(vmi)
	if s := vmi.Spec.EvictionStrategy; s != nil {
		m.Strategy = string(*s)
	}
	return m
}

// isDescheduled reports whether the descheduler has asked for the eviction of an instance.
func isDescheduled(vmi *kubevirt.VirtualMachineInstance) bool {
	return vmi.Annotations[kubevirt.EvictionSourceAnnotation] == "descheduler"
}

// CreateMigrations makes a migration for each of the instances that are still on the node, still have to leave it, and
// have none. Idempotent: its name is derived from the instance, the node and the migration before.
func (a *Activities) CreateMigrations(
	ctx context.Context, in contract.CreateMigrationsInput,
) (contract.CreateMigrationsResult, error) {
	var out contract.CreateMigrationsResult
	var there []kubevirt.VirtualMachineInstance
	var objects []contract.Object
	for _, e := range in.Instances {
		vmi, err := a.instanceOnNode(ctx, e.VMI, in.Node)
		switch {
		case err != nil:
			return out, err
		case vmi != nil && vmi.DeletionTimestamp == nil:
			there, objects = append(there, *vmi), append(objects, e.VMI)
		}
	}
	migrations, err := a.listMigrationsOf(ctx, objects)
	if err != nil {
		return out, err
	}
	stay := ""
	if slices.ContainsFunc(there, func(vmi kubevirt.VirtualMachineInstance) bool { return !isMarked(&vmi, in.Node) }) {
		if stay, err = a.whyNotDrained(ctx, in.Node); err != nil {
			return out, err
		}
	}
	for i := range there {
		vmi := &there[i]
		if stay != "" && !isMarked(vmi, in.Node) {
			out.Refused = append(out.Refused, contract.InstanceRefusal{UID: string(vmi.UID), Why: stay})
			continue
		}
		all := migrations[types.NamespacedName{Namespace: vmi.Namespace, Name: vmi.Name}]
		why, err := a.createMigration(ctx, vmi, all, evacuation(vmi, in))
		switch {
		case err != nil:
			return out, err
		case why != "":
			out.Refused = append(out.Refused, contract.InstanceRefusal{UID: string(vmi.UID), Why: why})
		default:
			out.Made++
		}
	}
	return out, nil
}

// isMarked reports whether an instance has to leave a node, whether the node is drained or not.
func isMarked(vmi *kubevirt.VirtualMachineInstance, node string) bool {
	return vmi.Status.EvacuationNodeName == node
}

// whyNotDrained returns why not all guests have to leave a node, by its current state and the current taint; "" if they
// do.
func (a *Activities) whyNotDrained(ctx context.Context, name string) (string, error) {
	node, err := a.Kubernetes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "node " + name + " exists no more", nil
	case err != nil:
		return "", failure("reading node "+name, err)
	}
	cluster, err := a.ReadSettings(ctx)
	if err != nil {
		return "", failure("reading which taint drains a node", err)
	}
	taint := cluster.DrainTaint()
	if o := observe.Node(node, false, taint); !o.Unschedulable && !o.Drain {
		return "node " + name + " is neither cordoned nor tainted " + taint + " now", nil
	}
	return "", nil
}

// evacuation returns the migration that moves an instance away from a node.
func evacuation(vmi *kubevirt.VirtualMachineInstance, in contract.CreateMigrationsInput) automated {
	how := automated{
		prefix: "kubevirt-evacuation-", key: in.Node, component: componentEvacuation,
		annotations: map[string]string{contract.AnnotationEvacuation: in.Node},
		priority:    kubevirt.PrioritySystemCritical,
	}
	if in.Actor != "" {
		how.annotations[contract.AnnotationRequestedBy] = in.Actor
	}
	if isDescheduled(vmi) {
		how.priority = kubevirt.PrioritySystemMaintenance
	}
	return how
}

// instanceOnNode returns an instance that is on a node, or nil: it is elsewhere, has ended, or has another UID by now.
func (a *Activities) instanceOnNode(
	ctx context.Context, o contract.Object, node string,
) (*kubevirt.VirtualMachineInstance, error) {
	vmi, err := a.KubeVirt.VMIs(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil // there is none
	case err != nil:
		return nil, failure("reading VirtualMachineInstance "+o.Name, err)
	case string(vmi.UID) != o.UID || vmi.Status.NodeName != node || vmi.IsFinal():
		return nil, nil // there is none
	}
	return vmi, nil
}

// DeleteMigrations deletes migrations; their entities cancel them as far as that goes. Idempotent: the UID is a
// precondition.
func (a *Activities) DeleteMigrations(ctx context.Context, in contract.DeleteMigrationsInput) error {
	for _, m := range in.Migrations {
		uid := types.UID(m.UID)
		err := a.KubeVirt.Migrations(m.Namespace).
			Delete(ctx, m.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return failure("deleting VirtualMachineInstanceMigration "+m.Name, err)
		}
	}
	return nil
}

// EvictPod evicts the launcher pods of an instance on a node, as kubectl drain would, unless the instance can move, or
// the node is not drained any more. Disruption budgets apply. Idempotent: a pod that is being deleted stays as it is.
func (a *Activities) EvictPod(ctx context.Context, in contract.EvictPodInput) (contract.EvictPodResult, error) {
	vmi, err := a.instanceOnNode(ctx, in.VMI, in.Node)
	if err != nil || vmi == nil {
		return contract.EvictPodResult{}, err
	}
	e := evacuee(vmi, in.Node, string(a.Settings().EvictionStrategy()))
	switch kubevirt.EvictionStrategy(e.Strategy) {
	case kubevirt.EvictionStrategyLiveMigrate, kubevirt.EvictionStrategyExternal:
		return contract.EvictPodResult{Refused: "its eviction strategy is " + e.Strategy + " now"}, nil
	case kubevirt.EvictionStrategyLiveMigrateIfPossible:
		if e.Migratable {
			return contract.EvictPodResult{Refused: "it can be moved now"}, nil
		}
	default:
	}
	if stay, err := a.whyNotDrained(ctx, in.Node); err != nil || stay != "" {
		return contract.EvictPodResult{Refused: stay}, err
	}
	refused, err := a.evictPods(ctx, in.VMI, in.Node, componentEvacuation, func(pod string) string {
		return "Evicted pod " + pod + " from node " + in.Node
	})
	return contract.EvictPodResult{Refused: refused}, err
}

// ClearEvacuation removes status.evacuationNodeName from instances where it names the node. It does not change an
// instance that has to leave another node, and one that is gone is no error.
func (a *Activities) ClearEvacuation(ctx context.Context, in contract.ClearEvacuationInput) error {
	for _, o := range in.Instances {
		const path = "/status/evacuationNodeName"
		patch := fmt.Sprintf(`[{"op":"test","path":"/metadata/uid","value":%q},{"op":"test","path":%q,"value":%q},`+
			`{"op":"remove","path":%q}]`, o.UID, path, in.Node, path)
		_, err := a.KubeVirt.VMIs(o.Namespace).
			Patch(ctx, o.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
			return failure("patching VirtualMachineInstance "+o.Name, err)
		}
	}
	return nil
}
