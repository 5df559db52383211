package machinemetrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIsVulnerableRuntime(t *testing.T) {
	for runtime, want := range map[string]bool{
		"containerd://1.7.24":        true,
		"containerd://1.6.20~ds1":    true,
		"containerd://2.0.5":         true,
		"containerd://2.1.0":         true,
		"containerd://v2.1.8":        true,
		"containerd://2.1.8-k3s1":    true,
		"containerd://2.1.9":         false,
		"containerd://2.2.4":         true,
		"containerd://2.2.5":         false,
		"containerd://2.3.1":         true,
		"containerd://2.3.2":         false,
		"containerd://2.4.2":         false,
		"containerd://3.0.0":         false,
		"containerd://2.1.10-custom": false,
		"containerd://unknown":       false,
		"cri-o://1.33.1":             false,
		"":                           false,
	} {
		require.Equal(t, want, isVulnerableRuntime(runtime), runtime)
	}
}

func TestCountsNodesWithVulnerableRuntime(t *testing.T) {
	i := newTestInformers(t)
	registry := leading(t, i, NewMachines)
	for name, runtime := range map[string]string{"old": "containerd://2.1.4", "new": "containerd://2.4.2"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Status.NodeInfo.ContainerRuntimeVersion = runtime
		keep(t, i.Nodes.GetStore(), node)
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP virtflow_node_vulnerable_runtime 1 for a node whose containerd has known vulnerabilities.
# TYPE virtflow_node_vulnerable_runtime gauge
virtflow_node_vulnerable_runtime{node="old",runtime="containerd://2.1.4"} 1
`), "virtflow_node_vulnerable_runtime"))
}
