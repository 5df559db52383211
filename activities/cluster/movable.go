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
	"k8s.io/apimachinery/pkg/util/sets"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// eachInstance calls a function with every instance of all namespaces that a label selector selects.
func (a *Activities) eachInstance(
	ctx context.Context, selector string, do func(*kubevirt.VirtualMachineInstance) error,
) error {
	for page := ""; ; {
		list, err := a.KubeVirt.VMIs(metav1.NamespaceAll).
			List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: pageSize, Continue: page})
		if err != nil {
			return failure("listing VirtualMachineInstances", err)
		}
		for i := range list.Items {
			if err := do(&list.Items[i]); err != nil {
				return err
			}
		}
		if page = list.Continue; page == "" {
			return nil
		}
	}
}

// listMovables returns the first contract.MaxMovables of instances, with what is known of their migrations, and the
// number of further instances. Those that can move are first, and of these the smallest, since they take the least
// time; of the same size the oldest. If there are more, p selects them. About is called with each migration that has
// not ended.
func (a *Activities) listMovables(
	ctx context.Context, of []contract.Movable, p contract.Priority,
	about func(*contract.Movable, *kubevirt.VirtualMachineInstanceMigration),
) (out []contract.Movable, more int, err error) {
	order := func(a, b contract.Movable) int {
		return cmp.Or(compareBool(a.Migratable, b.Migratable), cmp.Compare(a.Memory, b.Memory),
			a.Created.Compare(b.Created), cmp.Compare(a.VMI.UID, b.VMI.UID))
	}
	if more = max(0, len(of)-contract.MaxMovables); more > 0 {
		leaving, stuck := sets.New(p.Leaving...), sets.New(p.Stuck...)
		slices.SortFunc(of, func(a, b contract.Movable) int {
			return cmp.Or(compareBool(leaving.Has(a.VMI.UID), leaving.Has(b.VMI.UID)),
				compareBool(!stuck.Has(a.VMI.UID), !stuck.Has(b.VMI.UID)), order(a, b))
		})
		of = of[:contract.MaxMovables]
	}
	slices.SortFunc(of, order)
	var objects []contract.Object
	for _, m := range of {
		objects = append(objects, m.VMI)
	}
	migrations, err := a.listMigrationsOf(ctx, objects)
	if err != nil {
		return nil, 0, err
	}
	for i := range of {
		m := &of[i]
		all := migrations[types.NamespacedName{Namespace: m.VMI.Namespace, Name: m.VMI.Name}]
		for j := range all {
			if one := &all[j]; !one.IsFinal() {
				m.Migration = contract.Object{Namespace: one.Namespace, Name: one.Name, UID: string(one.UID)}
				m.Phase = string(one.Status.Phase)
				about(m, one)
			}
		}
		m.Failures, m.LastFailure = failedSince(all, m.VMI.Name, metav1.NewTime(m.Created), nil)
	}
	return of, more, nil
}

// compareBool orders true before false.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// listMigrationsOf returns the migrations of instances, by the instance's name: one request for each namespace.
func (a *Activities) listMigrationsOf(
	ctx context.Context, of []contract.Object,
) (map[types.NamespacedName][]kubevirt.VirtualMachineInstanceMigration, error) {
	names := map[string][]string{}
	for _, vmi := range of {
		names[vmi.Namespace] = append(names[vmi.Namespace], observe.NameLabel(vmi.Name))
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

// movable returns what is needed of an instance that has to leave its launcher, except its migrations.
func movable(vmi *kubevirt.VirtualMachineInstance) contract.Movable {
	m := contract.Movable{
		VMI:      contract.Object{Namespace: vmi.Namespace, Name: vmi.Name, UID: string(vmi.UID)},
		Running:  vmi.Status.Phase == kubevirt.Running && len(vmi.Status.ActivePods) <= 1,
		Deleting: vmi.DeletionTimestamp != nil,
		Created:  vmi.CreationTimestamp.UTC(),
	}
	if g := vmi.Spec.Domain.Memory; g != nil && g.Guest != nil {
		m.Memory = g.Guest.Value()
	}
	for _, c := range vmi.Status.Conditions {
		if c.Type == kubevirt.VirtualMachineInstanceIsMigratable {
			m.Migratable, m.Why = c.Status == corev1.ConditionTrue, contract.Cut(c.Message, maxError)
		}
	}
	return m
}

// automated describes a migration that no user has made.
type automated struct {
	// prefix of its name, the rest of which is derived from the instance, from key, and from the migration before:
	// making it again finds it.
	prefix, key string
	annotations map[string]string
	priority    kubevirt.MigrationPriority
	// component reports it in events; of ends the message of that event.
	component, of string
}

// createMigration makes a migration of an instance that has none which has not ended. What the API server refuses is a
// result.
func (a *Activities) createMigration(
	ctx context.Context, vmi *kubevirt.VirtualMachineInstance, all []kubevirt.VirtualMachineInstanceMigration,
	how automated,
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
	m := &kubevirt.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: vmi.Namespace, Name: how.name(vmi.UID, before),
			Labels:      map[string]string{kubevirt.MigrationSelectorLabel: observe.NameLabel(vmi.Name)},
			Annotations: how.annotations,
			Finalizers:  []string{contract.FinalizerMigration},
			// It goes with the instance.
			OwnerReferences: []metav1.OwnerReference{ownerOfMigration(vmi.Name, string(vmi.UID))},
		},
		Spec: kubevirt.VirtualMachineInstanceMigrationSpec{VMIName: vmi.Name, Priority: &how.priority},
	}
	object := contract.Object{Namespace: vmi.Namespace, Name: vmi.Name, UID: string(vmi.UID)}
	_, err = a.KubeVirt.Migrations(vmi.Namespace).Create(ctx, m, metav1.CreateOptions{})
	switch {
	case err == nil:
		a.recordBy(how.component, kindVMI, object,
			normalEvent("SuccessfulCreate", "Created Migration "+m.Name+how.of), m.Name)
		return "", nil
	case apierrors.IsAlreadyExists(err):
		return a.checkExisting(ctx, m)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		why := message(failure("creating VirtualMachineInstanceMigration "+m.Name, err))
		a.recordBy(how.component, kindVMI, object,
			warningEvent(contract.ReasonFailedCreate, "Error creating a Migration"+how.of+": "+why), why)
		return why, nil
	default:
		return "", failure("creating VirtualMachineInstanceMigration "+m.Name, err)
	}
}

// checkExisting refuses an object with the name of a migration to be made that is not that migration any more: without
// its label an ended one is not found, so that the name would be derived again and again.
func (a *Activities) checkExisting(
	ctx context.Context, m *kubevirt.VirtualMachineInstanceMigration,
) (refused string, err error) {
	is, err := a.KubeVirt.Migrations(m.Namespace).Get(ctx, m.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil // it is gone by now; the next attempt makes it
	case err != nil:
		return "", failure("reading VirtualMachineInstanceMigration "+m.Name, err)
	case is.IsFinal(), is.Spec.VMIName != m.Spec.VMIName:
		return fmt.Sprintf("VirtualMachineInstanceMigration %s has ended and lacks the label %s=%s: delete it", m.Name,
			kubevirt.MigrationSelectorLabel, observe.NameLabel(m.Spec.VMIName)), nil
	}
	return "", nil
}

func (how automated) name(vmi, before types.UID) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(vmi), how.key, string(before)}, "\x00")))
	return how.prefix + hex.EncodeToString(sum[:5])
}

// evictPods evicts the launcher pods of an instance on a node, as kubectl drain would: disruption budgets and the
// webhook apply. Words are those of the event about a pod. A refusal is a result. Idempotent: a pod that is being
// deleted stays as it is.
func (a *Activities) evictPods(
	ctx context.Context, vmi contract.Object, node, component string, words func(pod string) string,
) (refused string, err error) {
	pods, err := a.listLaunchers(ctx, vmi, nil)
	if err != nil {
		return "", err
	}
	refused = "it has no pod on node " + node + " now that could be evicted"
	for _, pod := range pods {
		if pod.NodeName != node {
			continue
		}
		if pod.Ended() || pod.DeletionTimestamp != nil {
			refused = "" // it leaves, perhaps by an attempt whose answer was lost
			continue
		}
		uid := types.UID(pod.UID)
		err := a.Kubernetes.PolicyV1().Evictions(vmi.Namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: vmi.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
		})
		switch {
		case err == nil:
			a.recordBy(component, kindVMI, vmi, normalEvent("SuccessfulEvict", words(pod.Name)), pod.UID)
			refused = ""
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		case apierrors.IsTooManyRequests(err), apierrors.IsForbidden(err),
			apierrors.IsInternalError(err): // as of a pod with two disruption budgets, which must not stop the others
			refused = message(failure("evicting pod "+pod.Name, err))
			a.recordBy(component, kindVMI, vmi, warningEvent("FailedEvict", "Error "+refused), pod.UID+refused)
			return refused, nil
		default:
			return "", failure("evicting pod "+pod.Name, err)
		}
	}
	return refused, nil
}
