package certificates

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/virtflow/virtflow/testsuite/kube"
)

// TestAccessWatchesItsSecrets: a Secret that was damaged is repaired at once, and all reads come from the watch.
func TestAccessWatchesItsSecrets(t *testing.T) {
	cluster := kube.New(kube.Options{Namespaces: []string{"virtflow"}})
	names := accessNames()
	for _, n := range []string{names.Own.Name, names.Nodes.Name, "unrelated"} {
		_, err := kube.Put(cluster, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: n}})
		require.NoError(t, err)
	}
	cluster.Intercept(func(r kube.Request) *kube.Fault {
		if r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=") {
			t.Errorf("%s is more than RBAC permits: %s", r.Call(), r.URL)
		}
		return nil
	})
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mgr, err := ctrl.NewManager(cluster.Config(), ctrl.Options{
		Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
	})
	require.NoError(t, err)
	secrets, err := WatchSecrets(mgr, names.Own, names.Nodes)
	require.NoError(t, err)
	require.ErrorContains(t, secrets.Get(t.Context(),
		types.NamespacedName{Namespace: "virtflow", Name: "unrelated"}, &corev1.Secret{}), "not among the Secrets")
	a := NewAccess(secrets, mgr.GetClient(), names, zerolog.Nop())
	require.NoError(t, a.SetUp(mgr, secrets))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	t.Cleanup(func() { require.NoError(t, <-ended) })

	const limit, tick = 30 * time.Second, 5 * time.Millisecond
	good := func() bool {
		config, err := a.Client()
		if err != nil {
			return false
		}
		nodes := kube.Get[corev1.Secret](cluster, names.Nodes.Namespace, names.Nodes.Name)
		return len(nodes.Data[corev1.TLSCertKey]) > 0 && shakeHands(t, config, nodes, time.Now()) == nil
	}
	require.Eventually(t, good, limit, tick)
	_, err = kube.Edit(cluster, names.Nodes.Namespace, names.Nodes.Name, "", func(s *corev1.Secret) { s.Data = nil })
	require.NoError(t, err)
	require.Eventually(t, good, limit, tick, "what was spoiled is not mended")
	asked := cluster.Calls()
	reads := 0
	for _, c := range asked {
		if strings.HasPrefix(c, "GET") {
			reads++
		}
	}
	require.LessOrEqual(t, reads, 4, "one list, or none, and one watch of each: %v", asked)
}
