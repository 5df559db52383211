package settings_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	kubeclient "github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/testsuite/kube"
)

func verbose(v *kubevirt.LogVerbosity) *kubevirt.KubeVirt {
	return &kubevirt.KubeVirt{
		ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: settings.ObjectName},
		Spec: kubevirt.KubeVirtSpec{Configuration: kubevirt.KubeVirtConfiguration{
			DeveloperConfiguration: &kubevirt.DeveloperConfiguration{LogVerbosity: v}}},
	}
}

func TestLogLevels(t *testing.T) {
	none := settings.LogLevels{API: zerolog.Disabled, Controller: zerolog.Disabled, Launcher: zerolog.Disabled}
	require.Equal(t, none, settings.Default().LogLevels())
	require.Equal(t, none, settings.From(verbose(nil)).LogLevels())
	require.Equal(t, none, settings.From(verbose(&kubevirt.LogVerbosity{VirtAPI: 2, VirtHandler: 9})).LogLevels())
	require.Equal(t,
		settings.LogLevels{API: zerolog.DebugLevel, Controller: zerolog.TraceLevel, Launcher: zerolog.DebugLevel},
		settings.From(verbose(&kubevirt.LogVerbosity{VirtAPI: 3, VirtController: 6, VirtLauncher: 5})).LogLevels())
	require.Equal(t, zerolog.TraceLevel,
		settings.From(verbose(&kubevirt.LogVerbosity{VirtAPI: 1000})).LogLevels().API)
}

// TestFollowsLogLevels: the object's first version, a change and its end are all followed.
func TestFollowsLogLevels(t *testing.T) {
	fake := kube.New(kube.Options{})
	_, err := kube.Put(fake, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "virtflow"}})
	require.NoError(t, err)
	_, err = kube.Put(fake, verbose(&kubevirt.LogVerbosity{VirtController: 4}))
	require.NoError(t, err)
	client, err := kubeclient.New(fake.Config())
	require.NoError(t, err)
	w := settings.NewWatcher(client, "virtflow")
	levels := make(chan zerolog.Level, 10)
	require.NoError(t, w.Follow(func(s settings.Settings) { levels <- s.LogLevels().Controller }))
	go w.Run(t.Context())
	next := func(want zerolog.Level) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) { require.Equal(c, want, <-levels) }, 10*time.Second,
			time.Millisecond)
	}
	next(zerolog.DebugLevel)
	objects := client.KubeVirts("virtflow")
	kv, err := objects.Get(t.Context(), settings.ObjectName, metav1.GetOptions{})
	require.NoError(t, err)
	kv.Spec.Configuration.DeveloperConfiguration.LogVerbosity.VirtController = 9
	_, err = objects.Update(t.Context(), kv, metav1.UpdateOptions{})
	require.NoError(t, err)
	next(zerolog.TraceLevel)
	require.NoError(t, objects.Delete(t.Context(), settings.ObjectName, metav1.DeleteOptions{}))
	next(zerolog.Disabled)
}
