package admission

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	virtadmission "github.com/virtflow/virtflow/api/admission"
	"github.com/virtflow/virtflow/internal/defaults"
)

// TestRecordedMigrations compares the cases that depend on other objects: with the instance of the case, and, if the
// case has one, another migration of it.
func TestRecordedMigrations(t *testing.T) {
	name := os.Getenv("VIRTFLOW_ADMISSION_CASES")
	if name == "" {
		t.Skip("VIRTFLOW_ADMISSION_CASES names no file")
	}
	records, err := Read(name)
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, kubevirtv1.AddToScheme(scheme))
	compared := 0
	for _, r := range records {
		if r.Path != virtadmission.PathValidateVMIM || r.DefaultResponse == nil {
			continue
		}
		var review admissionv1.AdmissionReview
		require.NoError(t, json.Unmarshal(r.Request, &review))
		m := &kubevirtv1.VirtualMachineInstanceMigration{}
		require.NoError(t, json.Unmarshal(review.Request.Object.Raw, m))
		vmi := &kubevirtv1.VirtualMachineInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Spec.VMIName}}
		vmi.Status.Phase = kubevirtv1.Running
		objects := fake.NewClientBuilder().WithScheme(scheme).WithObjects(vmi)
		other := m.DeepCopy()
		other.Name, other.Labels = "other", map[string]string{kubevirtv1.MigrationSelectorLabel: vmi.Name}
		switch {
		case strings.Contains(r.Title, "in-flight"):
			objects = objects.WithObjects(other)
		case strings.Contains(r.Title, "completed"):
			other.Status.Phase = kubevirtv1.MigrationSucceeded
			objects = objects.WithObjects(other)
		}
		o := newCluster()
		o.Reader = objects.Build()
		o.Cluster = func(context.Context) (defaults.Cluster, error) {
			cluster := defaults.Cluster{Architecture: "amd64"}
			if len(r.Config) == 0 {
				return cluster, nil
			}
			return cluster, json.Unmarshal(r.Config, &cluster.Configuration)
		}
		there := *r
		there.DefaultResponse = nil
		results := run(t, Start(t, o), []*Record{&there})
		require.Equal(t, Agrees, results[0].Outcome, "%s: %s", r.Title, results[0].Different)
		compared++
	}
	require.GreaterOrEqual(t, compared, 5, "hardly anything was compared")
}
