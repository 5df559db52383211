package admission

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/defaults"
)

// TestMigrationsByState: KubeVirt decides from the instance and its other migrations; the last check is whether guests
// migrate at all.
func TestMigrationsByState(t *testing.T) {
	migration := func(
		change func(*kubevirtv1.VirtualMachineInstanceMigration),
	) *kubevirtv1.VirtualMachineInstanceMigration {
		m := &kubevirtv1.VirtualMachineInstanceMigration{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "m", UID: "other"},
			Spec:       kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: "i"},
		}
		if change != nil {
			change(m)
		}
		return m
	}
	in := func(p kubevirtv1.VirtualMachineInstanceMigrationPhase) func(*kubevirtv1.VirtualMachineInstanceMigration) {
		return func(m *kubevirtv1.VirtualMachineInstanceMigration) {
			m.Name, m.Labels, m.Status.Phase = "before", map[string]string{kubevirtv1.MigrationSelectorLabel: "i"}, p
		}
	}
	for name, c := range map[string]struct {
		vmi    func(*kubevirtv1.VirtualMachineInstance)
		change func(*kubevirtv1.VirtualMachineInstanceMigration)
		before func(*kubevirtv1.VirtualMachineInstanceMigration)
		user   string
		why    string // "": it is made, once guests are moved
	}{
		"of one that runs":       {},
		"after one that is done": {before: in(kubevirtv1.MigrationSucceeded)},
		"after one that failed":  {before: in(kubevirtv1.MigrationFailed)},
		"beside one that waits": {before: in(kubevirtv1.MigrationPending), why: "in-flight migration detected. Active " +
			"migration job (other) is currently already in progress for VMI i."},
		"beside a new one": {before: in(""), why: "in-flight migration detected. Active migration job (other) is " +
			"currently already in progress for VMI i."},
		"beside another's of its label": {before: func(m *kubevirtv1.VirtualMachineInstanceMigration) {
			in(kubevirtv1.MigrationPending)(m)
			m.Spec.VMIName = "another"
		}},
		"of one that has ended": {vmi: func(v *kubevirtv1.VirtualMachineInstance) {
			v.Status.Phase = kubevirtv1.Succeeded
		}, why: "Cannot migrate VMI in finalized state."},
		"of one that cannot": {vmi: func(v *kubevirtv1.VirtualMachineInstance) {
			v.Status.Conditions = []kubevirtv1.VirtualMachineInstanceCondition{{
				Type: kubevirtv1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionFalse,
				Reason: "InterfaceNotLiveMigratable", Message: "it bridges",
			}}
		}, why: "Cannot migrate VMI, Reason: InterfaceNotLiveMigratable, Message: it bridges"},
		"of another user": {change: func(m *kubevirtv1.VirtualMachineInstanceMigration) { m.Spec.VMIName = "j" },
			why: `the VMI "demo/j" does not exist`},
		"ahead of others": {change: func(m *kubevirtv1.VirtualMachineInstanceMigration) {
			m.Spec.Priority = new(kubevirtv1.PrioritySystemCritical)
		}, why: "Migration priority queue, only virt-controller is allowed to set priority field"},
		"ahead of others, by virtflow": {change: func(m *kubevirtv1.VirtualMachineInstanceMigration) {
			m.Spec.Priority = new(kubevirtv1.PrioritySystemCritical)
		}, user: own},
		"to another cluster": {change: func(m *kubevirtv1.VirtualMachineInstanceMigration) {
			m.Spec.SendTo = &kubevirtv1.VirtualMachineInstanceMigrationSource{MigrationID: "x"}
		}, why: "DecentralizedLiveMigration feature gate is not enabled in kubevirt resource"},
		"to a node that cannot be named": {change: func(m *kubevirtv1.VirtualMachineInstanceMigration) {
			m.Spec.AddedNodeSelector = map[string]string{"zone": "not a label"}
		}, why: `spec.addedNodeSelector: Invalid value: "not a label": `},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "i"}}
			vmi.Status.Phase = kubevirtv1.Running
			if c.vmi != nil {
				c.vmi(vmi)
			}
			scheme := runtime.NewScheme()
			require.NoError(t, kubevirtv1.AddToScheme(scheme))
			objects := fake.NewClientBuilder().WithScheme(scheme).WithObjects(vmi)
			if c.before != nil {
				objects = objects.WithObjects(migration(c.before))
			}
			raw, err := json.Marshal(migration(c.change))
			require.NoError(t, err)
			options := Options{
				Cluster: func(context.Context) (defaults.Cluster, error) { return defaults.Cluster{}, nil },
				Reader:  objects.Build(), OwnUsers: []string{own}, Controllers: []string{own},
			}
			if c.user == "" {
				c.user = "alice"
			}
			h := Handlers(options)[PathValidateVMIM].(*admission.Webhook)
			resp := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				UID: "1", Operation: admissionv1.Create, Namespace: "demo", Name: "m",
				Resource: metav1.GroupVersionResource{Group: "kubevirt.io", Version: "v1",
					Resource: "virtualmachineinstancemigrations"},
				UserInfo: authenticationv1.UserInfo{Username: c.user}, Object: runtime.RawExtension{Raw: raw},
			}})
			require.Equal(t, c.why == "", resp.Allowed, "%v", resp.Result)
			if c.why != "" {
				require.Contains(t, resp.Result.Message, c.why)
			}
		})
	}
}

// TestRecordsUserOfMigration: a new migration gets KubeVirt's label and finalizer, and the annotation names the user of
// the request, whatever the object says. An update does not change the annotation.
func TestRecordsUserOfMigration(t *testing.T) {
	const object = `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration", "metadata": {"name": ` +
		`"m", "namespace": "demo", "annotations": {"virtflow.io/requested-by": "mallory", "a": "b"}}, "spec": ` +
		`{"vmiName": "i"}}`
	m := mutate[kubevirtv1.VirtualMachineInstanceMigration](t,
		call{path: PathMutateVMIM, operation: admissionv1.Create}, object)
	require.Equal(t, map[string]string{contract.AnnotationRequestedBy: "alice", "a": "b"}, m.Annotations)
	require.Equal(t, map[string]string{kubevirtv1.MigrationSelectorLabel: "i"}, m.Labels)
	require.Equal(t, []string{kubevirtv1.VirtualMachineInstanceMigrationFinalizer}, m.Finalizers)
	long := mutate[kubevirtv1.VirtualMachineInstanceMigration](t,
		call{path: PathMutateVMIM, operation: admissionv1.Create},
		strings.Replace(object, `"vmiName": "i"`, `"vmiName": "`+strings.Repeat("i", 148)+`"`, 1))
	require.Empty(t, validation.IsValidLabelValue(long.Labels[kubevirtv1.MigrationSelectorLabel]))
	created, err := json.Marshal(m)
	require.NoError(t, err)
	updated := mutate[kubevirtv1.VirtualMachineInstanceMigration](t,
		call{path: PathMutateVMIM, operation: admissionv1.Update, old: string(created), user: "mallory"}, object)
	require.Equal(t, m.Annotations, updated.Annotations)
	// virtflow's own accounts name the user for whom they create a migration.
	m = mutate[kubevirtv1.VirtualMachineInstanceMigration](t,
		call{path: PathMutateVMIM, operation: admissionv1.Create, user: own}, object)
	require.Equal(t, "mallory", m.Annotations[contract.AnnotationRequestedBy])
}
