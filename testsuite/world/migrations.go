package world

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	virtadmission "github.com/virtflow/virtflow/api/admission"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// reader is the client through which admission reads the cluster.
type reader struct{ world *World }

// Get reads an instance; admission reads no other object here.
func (r reader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	vmi, ok := into.(*kubevirt.VirtualMachineInstance)
	found := kube.Get[kubevirt.VirtualMachineInstance](r.world.Kube, key.Namespace, key.Name)
	if !ok || found == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "virtualmachineinstances"}, key.Name)
	}
	found.DeepCopyInto(vmi)
	return nil
}

// List lists migrations.
func (r reader) List(_ context.Context, into client.ObjectList, o ...client.ListOption) error {
	list, ok := into.(*kubevirt.VirtualMachineInstanceMigrationList)
	if !ok {
		return fmt.Errorf("admission is not expected to list %T", into)
	}
	options := (&client.ListOptions{}).ApplyOptions(o)
	for _, m := range kube.List[kubevirt.VirtualMachineInstanceMigration](r.world.Kube, options.Namespace) {
		if options.LabelSelector == nil || options.LabelSelector.Matches(labels.Set(m.Labels)) {
			list.Items = append(list.Items, *m)
		}
	}
	return nil
}

// Migrate creates a migration of a VMI through admission, and returns its name.
func (w *World) Migrate(name string) string {
	w.migrations++
	m := w.migration("move-"+strconv.Itoa(w.migrations), name)
	w.tracef("user: migrate VMI %s (%s)", name, m.Name)
	admitted := &kubevirt.VirtualMachineInstanceMigration{}
	err := w.users.admit(virtadmission.PathMutateVMIM, virtadmission.PathValidateVMIM, nil, m, admitted)
	if err == nil {
		_, err = kube.Put(w.Kube, admitted)
	}
	w.userError(err)
	return m.Name
}

// MigratePastAdmission creates a migration without the webhooks, which would refuse a second one, and returns its name.
func (w *World) MigratePastAdmission(name string) string {
	w.migrations++
	m := w.migration("move-"+strconv.Itoa(w.migrations), name)
	w.tracef("user: migrate VMI %s at the same time (%s)", name, m.Name)
	m.Finalizers = []string{contract.FinalizerMigration}
	m.Labels = map[string]string{kubevirt.MigrationSelectorLabel: name}
	_, err := kube.Put(w.Kube, m)
	w.userError(err)
	return m.Name
}

func (w *World) migration(name, vmi string) *kubevirt.VirtualMachineInstanceMigration {
	return &kubevirt.VirtualMachineInstanceMigration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstanceMigration"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec:       kubevirt.VirtualMachineInstanceMigrationSpec{VMIName: vmi},
	}
}

// CancelMigrations deletes every migration, which cancels them.
func (w *World) CancelMigrations() {
	for _, m := range w.Migrations() {
		w.tracef("user: delete migration %s", m.Name)
		w.userError(kube.Remove[kubevirt.VirtualMachineInstanceMigration](w.Kube, m.Namespace, m.Name, nil))
	}
}

// removeMigrations removes the finalizers of every migration and deletes it, as a user does by hand.
func (w *World) removeMigrations() {
	for _, m := range w.Migrations() {
		w.tracef("user: remove the finalizers of migration %s, and delete it", m.Name)
		_, err := kube.Edit(w.Kube, m.Namespace, m.Name, "", func(m *kubevirt.VirtualMachineInstanceMigration) {
			m.Finalizers = nil
		})
		w.userError(err)
		w.userError(kube.Remove[kubevirt.VirtualMachineInstanceMigration](w.Kube, m.Namespace, m.Name, nil))
	}
}

// Migrations returns all migrations.
func (w *World) Migrations() []*kubevirt.VirtualMachineInstanceMigration {
	return kube.List[kubevirt.VirtualMachineInstanceMigration](w.Kube, Namespace)
}

// Migration returns the migration, or nil.
func (w *World) Migration(name string) *kubevirt.VirtualMachineInstanceMigration {
	return kube.Get[kubevirt.VirtualMachineInstanceMigration](w.Kube, Namespace, name)
}

// waitForMigrations waits until every migration has ended.
func (w *World) waitForMigrations() {
	w.Until(w.patience(), func() bool {
		for _, m := range w.Migrations() {
			if !m.IsFinal() {
				return false
			}
		}
		return true
	})
}

// quota lets the namespace's quota refuse pods, or admit them again.
func (w *World) quota(full bool) {
	w.tracef("quota: full %t", full)
	if !full {
		w.Kube.Intercept(nil)
		return
	}
	status := apierrors.NewForbidden(corev1.Resource("pods"), "", fmt.Errorf("exceeded quota: machines")).Status()
	w.Kube.Intercept(func(r kube.Request) *kube.Fault {
		if r.Resource == "pods" && r.Verb == "create" && r.Method == http.MethodPost {
			return &kube.Fault{Status: &status}
		}
		return nil
	})
}

// checkMigrationsEnded checks that nothing of a migration is left, and that every instance's status has its guest's
// node.
func (w *World) checkMigrationsEnded() error {
	for _, m := range w.Migrations() {
		if !m.IsFinal() {
			return fmt.Errorf("migration %s is %q", m.Name, m.Status.Phase)
		}
		if m.DeletionTimestamp != nil || len(m.Finalizers) > 0 {
			return fmt.Errorf("migration %s is %s, deleted %v, and has finalizers %v", m.Name, m.Status.Phase,
				m.DeletionTimestamp, m.Finalizers)
		}
	}
	for _, v := range kube.List[kubevirt.VirtualMachineInstance](w.Kube, Namespace) {
		if err := w.checkInstanceStatus(v); err != nil {
			return fmt.Errorf("VMI %s %w", v.Name, err)
		}
		if by := w.reservedBy(v.Name); by != "" {
			return fmt.Errorf("VMI %s has a reservation for migration %s, which has ended", v.Name, by)
		}
	}
	for _, p := range kube.List[corev1.Pod](w.Kube, Namespace) {
		owner := metav1.GetControllerOf(p)
		if owner == nil || p.Namespace == systemNamespace {
			continue
		}
		// The instance runs in one of its pods and needs no other.
		if l := w.Launcher(owner.Name); l != nil && l.host.isAlive() && l.podUID != string(p.UID) {
			return fmt.Errorf("pod %s of VMI %s is there beside %s, in which its guest runs", p.Name, l.vmi, l.podUID)
		}
	}
	return nil
}

// reservedBy returns the name of the migration that has the instance's reservation; "": none.
func (w *World) reservedBy(vmi string) string {
	var state struct {
		Claim struct {
			Migration contract.Object `json:"migration"`
		} `json:"claim"`
	}
	v, err := w.env.QueryWorkflowByID(contract.VMIID(Namespace, vmi), contract.QueryState)
	if err != nil || v.Get(&state) != nil {
		return ""
	}
	return state.Claim.Migration.Name
}

func (w *World) checkInstanceStatus(v *kubevirt.VirtualMachineInstance) error {
	l := w.Launcher(v.Name)
	if l == nil || v.Status.Phase != kubevirt.Running || !l.host.isAlive() {
		return nil
	}
	// Some users remove all labels. Only a wrong label misleads.
	if label, ok := v.Labels[contract.LabelNodeName]; v.Status.NodeName != l.host.name || ok && label != l.host.name {
		return fmt.Errorf("has status.nodeName %q (label %q), and is on %s", v.Status.NodeName, label, l.host.name)
	}
	if len(v.Status.ActivePods) != 1 || v.Status.ActivePods[types.UID(l.podUID)] != l.host.name {
		return fmt.Errorf("has the active pods %v, and is in %s on %s", v.Status.ActivePods, l.podUID, l.host.name)
	}
	if node, ok := v.Labels[contract.LabelMigrationTarget]; ok {
		return fmt.Errorf("has a migration to %s in its status", node)
	}
	if m := v.Status.MigrationState; m != nil && !m.Completed && !m.Failed {
		return fmt.Errorf("has a migration state that has not ended: %+v", *m)
	}
	return nil
}

// moved wants the guest on another node than before, in the same domain, and the migration to have succeeded; with a
// fault, the guest may also have stayed and the migration have failed.
func moved(times int) func(*World) error {
	return func(w *World) error {
		if err := settledAfterMoves(w); err != nil {
			return err
		}
		done := 0
		for _, m := range w.Migrations() {
			if m.Status.Phase == kubevirt.MigrationSucceeded {
				done++
			}
		}
		if w.Moved[key] != done && !w.wasEtcdPutBack() {
			return fmt.Errorf("the guest was moved %d times, and %d migrations have succeeded", w.Moved[key],
				done)
		}
		if w.fault == nil && done != times {
			return fmt.Errorf("%d migrations succeeded, wanted are %d: %s", done, times, w.failures())
		}
		return nil
	}
}

// unmoved wants the guest on its first node, and the migrations to have failed.
func unmoved(w *World) error {
	if err := settledAfterMoves(w); err != nil {
		return err
	}
	if w.Moved[key] > 0 {
		return fmt.Errorf("the guest was moved")
	}
	for _, m := range w.Migrations() {
		if m.Status.Phase != kubevirt.MigrationFailed {
			return fmt.Errorf("migration %s is %s", m.Name, m.Status.Phase)
		}
	}
	return nil
}

// settledAfterMoves wants the VM to run in the domain that it was started in.
func settledAfterMoves(w *World) error {
	if w.Started[key] > 1 && !w.wasEtcdPutBack() {
		return fmt.Errorf("the guest was started %d times", w.Started[key])
	}
	return wantRunning(vm)(w)
}

// wasEtcdPutBack reports whether etcd was put back. That may end a guest whose pod was made since the copy.
func (w *World) wasEtcdPutBack() bool {
	return w.fault != nil && w.fault.Mode == EtcdBack && w.faultHit > 0
}

// failures returns why migrations failed.
func (w *World) failures() string {
	out := ""
	for _, m := range w.Migrations() {
		out += fmt.Sprintf("%s: %s", m.Name, m.Status.Phase)
		if s := m.Status.MigrationState; s != nil {
			out += " " + s.FailureReason
		}
		out += "; "
	}
	return out
}

// point is a moment of a migration.
type point struct {
	name string
	is   func(*World) bool
}

// points returns the moments at which something else may happen.
func points() []point {
	at := func(s stage) func(*World) bool {
		return func(w *World) bool {
			for _, h := range w.hosts {
				for _, box := range h.pods {
					if l := box.launcher; l != nil && l.move != nil && l.key() == key && l.move.stage == s {
						return true
					}
				}
			}
			return false
		}
	}
	target := func(is func(*World, *corev1.Pod) bool) func(*World) bool {
		return func(w *World) bool {
			for _, p := range kube.List[corev1.Pod](w.Kube, Namespace) {
				if p.Labels[contract.LabelMigration] != "" && is(w, p) {
					return true
				}
			}
			return false
		}
	}
	return []point{
		{"asked", func(*World) bool { return true }},
		{"claimed", func(w *World) bool { return !w.workflows.isClosed(contract.MigrationID(Namespace, "move-1")) }},
		{"made", target(func(*World, *corev1.Pod) bool { return true })},
		{"up", target(func(w *World, p *corev1.Pod) bool { return w.launcherOf(string(p.UID)) != nil })},
		{"prepared", target(func(w *World, p *corev1.Pod) bool {
			h := w.hosts[p.Spec.NodeName]
			return h != nil && len(h.own.targets) > 0
		})},
		{"copying", at(copying)}, {"switching", at(switching)}, {"arrived", at(arrived)}, {"departed", at(departed)},
		{"moved", func(w *World) bool { return w.Moved[key] > 0 }},
	}
}

// reach waits for a moment of a migration, which may have passed, or may never come.
func (w *World) reach(name string) {
	for _, p := range points() {
		if p.name != name {
			continue
		}
		for end := w.Now().Add(20 * time.Second); !p.is(w) && w.Now().Before(end); {
			w.Sleep(3 * time.Millisecond)
		}
		w.tracef("story: %s: %t", name, p.is(w))
		return
	}
	panic("there is no moment " + name)
}

// migrating starts the guest and a migration, and waits for a moment of it.
func migrating(w *World, at string) {
	up(w)
	w.Migrate(vm)
	w.reach(at)
}
