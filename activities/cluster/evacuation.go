package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// FindEvacuees lists the instances on a node that are to leave it: those that can be moved first, the smallest of them
// first, since it is done soonest; of the same size the oldest.
func (a *Activities) FindEvacuees(
	ctx context.Context, in contract.FindEvacueesInput,
) (contract.FindEvacueesResult, error) {
	settings := a.Settings()
	out := contract.FindEvacueesResult{Outbound: settings.Migrations().PerNode}
	there, err := a.instancesOn(ctx, in.Node)
	if err != nil {
		return out, err
	}
	there = slices.DeleteFunc(there, func(vmi kubevirt.VirtualMachineInstance) bool {
		return in.Scope == contract.ScopeMarked && !marked(&vmi, in.Node)
	})
	migrations, err := a.migrationsOf(ctx, there)
	if err != nil {
		return out, err
	}
	for i := range there {
		vmi := &there[i]
		out.Evacuees = append(out.Evacuees, evacuee(vmi, in.Node, string(settings.EvictionStrategy()),
			migrations[types.NamespacedName{Namespace: vmi.Namespace, Name: vmi.Name}]))
	}
	slices.SortFunc(out.Evacuees, func(a, b contract.Evacuee) int {
		return cmp.Or(first(a.Migratable, b.Migratable), cmp.Compare(a.Memory, b.Memory), a.Created.Compare(b.Created),
			cmp.Compare(a.VMI.UID, b.VMI.UID))
	})
	if more := len(out.Evacuees) - contract.MaxEvacuees; more > 0 {
		out.Evacuees, out.More = out.Evacuees[:contract.MaxEvacuees], more
	}
	return out, nil
}

// first orders what is so before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// instancesOn are the instances of all namespaces that are on a node and have not ended.
func (a *Activities) instancesOn(ctx context.Context, node string) ([]kubevirt.VirtualMachineInstance, error) {
	selector := labels.SelectorFromSet(labels.Set{kubevirt.NodeNameLabel: node}).String()
	var out []kubevirt.VirtualMachineInstance
	for page := ""; ; {
		list, err := a.KubeVirt.VMIs(metav1.NamespaceAll).
			List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: pageSize, Continue: page})
		if err != nil {
			return nil, failure("listing the VirtualMachineInstances on node "+node, err)
		}
		for _, vmi := range list.Items {
			if vmi.Status.NodeName == node && !vmi.IsFinal() {
				out = append(out, vmi)
			}
		}
		if page = list.Continue; page == "" {
			return out, nil
		}
	}
}

// migrationsOf are the migrations of instances, by the instance's name: one request for each namespace.
func (a *Activities) migrationsOf(
	ctx context.Context, of []kubevirt.VirtualMachineInstance,
) (map[types.NamespacedName][]kubevirt.VirtualMachineInstanceMigration, error) {
	names := map[string][]string{}
	for _, vmi := range of {
		if len(validation.IsValidLabelValue(vmi.Name)) == 0 { // otherwise no migration has it as label
			names[vmi.Namespace] = append(names[vmi.Namespace], vmi.Name)
		}
	}
	out := map[types.NamespacedName][]kubevirt.VirtualMachineInstanceMigration{}
	for namespace, in := range names {
		which, err := labels.NewRequirement(kubevirt.MigrationSelectorLabel, selection.In, in)
		if err != nil {
			return nil, fmt.Errorf("selecting the migrations of instances: %w", err)
		}
		list, err := a.KubeVirt.Migrations(namespace).
			List(ctx, metav1.ListOptions{LabelSelector: labels.NewSelector().Add(*which).String()})
		if err != nil {
			return nil, failure("listing the VirtualMachineInstanceMigrations of namespace "+namespace, err)
		}
		for _, m := range list.Items {
			key := types.NamespacedName{Namespace: namespace, Name: m.Spec.VMIName}
			out[key] = append(out[key], m)
		}
	}
	return out, nil
}

// evacuee is what a drain needs to know of an instance.
func evacuee(
	vmi *kubevirt.VirtualMachineInstance, node, strategy string, all []kubevirt.VirtualMachineInstanceMigration,
) contract.Evacuee {
	e := contract.Evacuee{
		VMI:         contract.Object{Namespace: vmi.Namespace, Name: vmi.Name, UID: string(vmi.UID)},
		Strategy:    strategy,
		Marked:      marked(vmi, node),
		Descheduled: vmi.Annotations[kubevirt.EvictionSourceAnnotation] == "descheduler",
		Running:     vmi.Status.Phase == kubevirt.Running && len(vmi.Status.ActivePods) <= 1,
		Deleting:    vmi.DeletionTimestamp != nil,
		Created:     vmi.CreationTimestamp.UTC(),
	}
	if s := vmi.Spec.EvictionStrategy; s != nil {
		e.Strategy = string(*s)
	}
	if m := vmi.Spec.Domain.Memory; m != nil && m.Guest != nil {
		e.Memory = m.Guest.Value()
	}
	for _, c := range vmi.Status.Conditions {
		if c.Type == kubevirt.VirtualMachineInstanceIsMigratable {
			e.Migratable, e.Why = c.Status == corev1.ConditionTrue, observe.Cut(c.Message, maxError)
		}
	}
	for _, m := range all {
		if !m.IsFinal() {
			e.Migration = contract.Object{Namespace: m.Namespace, Name: m.Name, UID: string(m.UID)}
			e.Phase, e.Evacuates = string(m.Status.Phase), m.Annotations[contract.AnnotationEvacuation] == node
		}
	}
	e.Failures, e.LastFailure = failedSince(all, vmi, nil)
	return e
}

// CreateMigrations makes a migration for each of the instances that are on the node yet, are to leave it as things are
// now, and have none. Idempotent: its name is derived from the instance, the node and the one before.
func (a *Activities) CreateMigrations(
	ctx context.Context, in contract.CreateMigrationsInput,
) (contract.CreateMigrationsResult, error) {
	var out contract.CreateMigrationsResult
	var there []kubevirt.VirtualMachineInstance
	for _, e := range in.Instances {
		vmi, err := a.onNode(ctx, e.VMI, in.Node)
		switch {
		case err != nil:
			return out, err
		case vmi != nil && vmi.DeletionTimestamp == nil:
			there = append(there, *vmi)
		}
	}
	migrations, err := a.migrationsOf(ctx, there)
	if err != nil {
		return out, err
	}
	stay := ""
	if slices.ContainsFunc(there, func(vmi kubevirt.VirtualMachineInstance) bool { return !marked(&vmi, in.Node) }) {
		if stay, err = a.notDrained(ctx, in.Node); err != nil {
			return out, err
		}
	}
	for i := range there {
		vmi := &there[i]
		if stay != "" && !marked(vmi, in.Node) {
			out.Refused = append(out.Refused, contract.EvacueeRefusal{UID: string(vmi.UID), Why: stay})
			continue
		}
		all := migrations[types.NamespacedName{Namespace: vmi.Namespace, Name: vmi.Name}]
		why, err := a.createEvacuation(ctx, vmi, in, all)
		switch {
		case err != nil:
			return out, err
		case why != "":
			out.Refused = append(out.Refused, contract.EvacueeRefusal{UID: string(vmi.UID), Why: why})
		default:
			out.Made++
		}
	}
	return out, nil
}

// marked says that an instance is asked to leave a node, whatever becomes of the others.
func marked(vmi *kubevirt.VirtualMachineInstance, node string) bool {
	return vmi.Status.EvacuationNodeName == node
}

// notDrained is why not all guests are to leave a node, as the API server knows it now; "" when they are.
func (a *Activities) notDrained(ctx context.Context, name string) (string, error) {
	node, err := a.Kubernetes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "node " + name + " exists no more", nil
	case err != nil:
		return "", failure("reading node "+name, err)
	}
	if o := observe.Node(node, false); !o.Unschedulable && !o.Drain {
		return "node " + name + " is neither cordoned nor tainted " + contract.TaintDrain + " now", nil
	}
	return "", nil
}

// createEvacuation makes one. What the API server refuses is a result.
func (a *Activities) createEvacuation(
	ctx context.Context, vmi *kubevirt.VirtualMachineInstance, in contract.CreateMigrationsInput,
	all []kubevirt.VirtualMachineInstanceMigration,
) (refused string, err error) {
	var before types.UID
	var latest metav1.Time
	for _, m := range all {
		if !m.IsFinal() {
			return "", nil
		}
		if before == "" || latest.Before(&m.CreationTimestamp) {
			before, latest = m.UID, m.CreationTimestamp
		}
	}
	priority := kubevirt.PrioritySystemCritical
	if vmi.Annotations[kubevirt.EvictionSourceAnnotation] == "descheduler" {
		priority = kubevirt.PrioritySystemMaintenance
	}
	m := &kubevirt.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: vmi.Namespace, Name: evacuationName(vmi.UID, in.Node, before),
			Labels:      map[string]string{kubevirt.MigrationSelectorLabel: vmi.Name},
			Annotations: map[string]string{contract.AnnotationEvacuation: in.Node},
			Finalizers:  []string{contract.FinalizerMigration},
			// It goes with the instance.
			OwnerReferences: []metav1.OwnerReference{{APIVersion: kubevirt.GroupVersion.String(),
				Kind: kindVMI, Name: vmi.Name, UID: vmi.UID}},
		},
		Spec: kubevirt.VirtualMachineInstanceMigrationSpec{VMIName: vmi.Name, Priority: &priority},
	}
	if in.Actor != "" {
		m.Annotations[contract.AnnotationRequestedBy] = in.Actor
	}
	object := contract.Object{Namespace: vmi.Namespace, Name: vmi.Name, UID: string(vmi.UID)}
	_, err = a.KubeVirt.Migrations(vmi.Namespace).Create(ctx, m, metav1.CreateOptions{})
	switch {
	case err == nil:
		a.tellBy(componentEvacuation, kindVMI, object, normal("SuccessfulCreate", "Created Migration "+m.Name), m.Name)
		return "", nil
	case apierrors.IsAlreadyExists(err):
		return "", nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		why := message(failure("creating VirtualMachineInstanceMigration "+m.Name, err))
		a.tellBy(componentEvacuation, kindVMI, object, warning("FailedCreate", "Error creating a Migration: "+why), why)
		return why, nil
	default:
		return "", failure("creating VirtualMachineInstanceMigration "+m.Name, err)
	}
}

// evacuationName is derived from what it is for: making a migration again finds it.
func evacuationName(vmi types.UID, node string, before types.UID) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(vmi), node, string(before)}, "\x00")))
	return "kubevirt-evacuation-" + hex.EncodeToString(sum[:5])
}

// onNode is an instance that is on a node, or nil: it is not, has ended, or is another one by now.
func (a *Activities) onNode(
	ctx context.Context, o contract.Object, node string,
) (*kubevirt.VirtualMachineInstance, error) {
	vmi, err := a.KubeVirt.VMIs(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, failure("reading VirtualMachineInstance "+o.Name, err)
	case string(vmi.UID) != o.UID || vmi.Status.NodeName != node || vmi.IsFinal():
		return nil, nil //nolint:nilnil // there is none
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

// EvictPod evicts the launcher pods of an instance on a node, as whoever drains the node would, unless the instance is
// to be moved, or the node is not drained, as things are now. Disruption budgets are asked. Idempotent: a pod that is
// being deleted is left as it is.
func (a *Activities) EvictPod(ctx context.Context, in contract.EvictPodInput) (contract.EvictPodResult, error) {
	vmi, err := a.onNode(ctx, in.VMI, in.Node)
	if err != nil || vmi == nil {
		return contract.EvictPodResult{}, err
	}
	e := evacuee(vmi, in.Node, string(a.Settings().EvictionStrategy()), nil)
	switch kubevirt.EvictionStrategy(e.Strategy) {
	case kubevirt.EvictionStrategyLiveMigrate, kubevirt.EvictionStrategyExternal:
		return contract.EvictPodResult{Refused: "its eviction strategy is " + e.Strategy + " now"}, nil
	case kubevirt.EvictionStrategyLiveMigrateIfPossible:
		if e.Migratable {
			return contract.EvictPodResult{Refused: "it can be moved now"}, nil
		}
	default:
	}
	if stay, err := a.notDrained(ctx, in.Node); err != nil || stay != "" {
		return contract.EvictPodResult{Refused: stay}, err
	}
	pods, err := a.launchers(ctx, in.VMI, nil)
	if err != nil {
		return contract.EvictPodResult{}, err
	}
	for _, pod := range pods {
		if pod.NodeName != in.Node || pod.Ended() || pod.DeletionTimestamp != nil {
			continue
		}
		uid := types.UID(pod.UID)
		err := a.Kubernetes.PolicyV1().Evictions(in.VMI.Namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: in.VMI.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
		})
		switch {
		case err == nil:
			a.tellBy(componentEvacuation, kindVMI, in.VMI,
				normal("SuccessfulEvict", "Evicted pod "+pod.Name+" from node "+in.Node), pod.UID)
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		case apierrors.IsTooManyRequests(err), apierrors.IsForbidden(err):
			return contract.EvictPodResult{Refused: message(failure("evicting pod "+pod.Name, err))}, nil
		default:
			return contract.EvictPodResult{}, failure("evicting pod "+pod.Name, err)
		}
	}
	return contract.EvictPodResult{}, nil
}

// ClearEvacuation takes back that instances are to leave a node. One that is to leave another node stays as it is.
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
