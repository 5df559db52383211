package monitoring_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestKubeVirtsDashboardsHaveTheirMetrics: each metric that a published dashboard names is exported or recorded, is
// the cluster's, or is known to be missing. What is exported is not missing.
func TestKubeVirtsDashboardsHaveTheirMetrics(t *testing.T) {
	content, err := os.ReadFile("testdata/kubevirt-dashboards.yaml")
	require.NoError(t, err)
	var file struct {
		Dashboards map[string][]string
		Missing    map[string]string
	}
	require.NoError(t, yaml.UnmarshalStrict(content, &file))
	require.NotEmpty(t, file.Dashboards)
	known, named := exported(t), map[string]bool{}
	for dashboard, names := range file.Dashboards {
		require.NotEmpty(t, names, dashboard)
		for _, name := range names {
			named[name] = true
			if exists(known, name) {
				require.NotContains(t, file.Missing, name, "it is exported")
				continue
			}
			require.True(t, file.Missing[name] != "" || isOfTheCluster(name), "there is no metric %s, asked for by %s",
				name, dashboard)
		}
	}
	for name := range file.Missing {
		require.True(t, named[name], "no dashboard asks for %s", name)
	}
	require.False(t, isOfTheCluster("kubevirt_vm_info"))
}

// isOfTheCluster reports whether a metric is one of Kubernetes' programs, etcd, kube-state-metrics, cAdvisor, the node
// exporter, or of Go programs in general.
func isOfTheCluster(name string) bool {
	return slices.ContainsFunc([]string{"kube_", "container_", "kubelet_", "node_", "go_", "process_", "apiserver_",
		"etcd_", "grpc_client_", "scheduler_", "storage_operation_"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
