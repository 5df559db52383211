package settings_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"kubevirt.io/api/migrations/v1alpha1"

	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// TestPoliciesWithoutDefinition: there are none, until their definition is installed.
func TestPoliciesWithoutDefinition(t *testing.T) {
	fake := kube.New(kube.Options{})
	status := apierrors.NewNotFound(schema.GroupResource{Resource: "migrationpolicies"}, "").Status()
	fake.Intercept(func(r kube.Request) *kube.Fault {
		if r.Resource != "migrationpolicies" {
			return nil
		}
		return &kube.Fault{Status: &status}
	})
	policies, err := settings.NewPolicies(fake.Config())
	require.NoError(t, err)
	go policies.Run(t.Context())
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		all, err := policies.All()
		require.NoError(c, err)
		require.Empty(c, all)
	}, 10*time.Second, 10*time.Millisecond)
	fake.Intercept(nil)
	_, err = kube.Put(fake, &v1alpha1.MigrationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "first"},
		Spec: v1alpha1.MigrationPolicySpec{Selectors: &v1alpha1.Selectors{}}})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		all, err := policies.All()
		require.NoError(c, err)
		require.Len(c, all, 1)
	}, 20*time.Second, 10*time.Millisecond)
}

// TestFollowsPolicies: created, changed and deleted policies are known without further requests, and none before they
// have been read.
func TestFollowsPolicies(t *testing.T) {
	config := kube.New(kube.Options{}).Config()
	clients, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	objects := clients.Resource(schema.GroupVersionResource{Group: "migrations.kubevirt.io", Version: "v1alpha1",
		Resource: "migrationpolicies"})
	policy := func(name string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "migrations.kubevirt.io/v1alpha1",
			"kind": "MigrationPolicy", "metadata": map[string]any{"name": name}, "spec": spec}}
	}
	selectors := map[string]any{"virtualMachineInstanceSelector": map[string]any{"app": "web"}}
	create := func(name string, spec map[string]any) error {
		_, err := objects.Create(t.Context(), policy(name, spec), metav1.CreateOptions{})
		return err
	}
	web := map[string]any{"selectors": selectors}
	require.NoError(t, create("first", web))
	for name, spec := range map[string]map[string]any{
		"without-selectors": {}, "of-a-word": {"selectors": selectors, "allowPostCopy": "yes"},
		"of-no-downtime": {"selectors": selectors, "maxDowntimeMs": int64(0)},
	} {
		require.Error(t, create(name, spec), "the definition does not take %s", name)
	}

	policies, err := settings.NewPolicies(config)
	require.NoError(t, err)
	_, err = policies.All()
	require.Error(t, err, "have not been read")
	go policies.Run(t.Context())
	names := func(want ...string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			all, err := policies.All()
			require.NoError(c, err)
			var got []string
			for _, p := range all {
				require.Equal(c, "web", p.Spec.Selectors.VirtualMachineInstanceSelector["app"])
				got = append(got, p.Name)
			}
			slices.Sort(got)
			require.Equal(c, want, got)
		}, 10*time.Second, 10*time.Millisecond)
	}
	names("first")
	require.NoError(t, create("second", web))
	names("first", "second")
	require.NoError(t, objects.Delete(t.Context(), "first", metav1.DeleteOptions{}))
	names("second")
}
