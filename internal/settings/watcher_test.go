package settings_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	internalkube "github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// TestReadsCurrentObject: the watcher, whose informer does not run, still has the defaults.
func TestReadsCurrentObject(t *testing.T) {
	fake := kube.New(kube.Options{})
	client, err := internalkube.New(fake.Config())
	require.NoError(t, err)
	w := settings.NewWatcher(client, "default")
	s, err := w.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, contract.TaintDrain, s.DrainTaint(), "there is no object")
	kv := &kubevirt.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: settings.ObjectName}}
	kv.Spec.Configuration.MigrationConfiguration = &kubevirt.MigrationConfiguration{NodeDrainTaintKey: new("a.b/empty")}
	_, err = client.KubeVirts("default").Create(t.Context(), kv, metav1.CreateOptions{})
	require.NoError(t, err)
	s, err = w.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "a.b/empty", s.DrainTaint())
	require.Equal(t, contract.TaintDrain, w.Current().DrainTaint())
	status := apierrors.NewInternalError(errors.New("no etcd")).Status()
	fake.Intercept(func(kube.Request) *kube.Fault { return &kube.Fault{Status: &status} })
	_, err = w.Read(t.Context())
	require.ErrorContains(t, err, "reading the KubeVirt object default/kubevirt")
}
