package watch

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/internal/settings"
)

// NodeSettings has the cluster-wide settings of nodes.
type NodeSettings struct {
	drainTaint     string
	obsoleteModels []string
	version        string // of the KubeVirt object
}

// NodeSettings returns the current settings of nodes.
func (i *Informers) NodeSettings() NodeSettings {
	version := i.Settings.LastSyncResourceVersion() // of two with the same version the later one counts
	kv, ok := Get[*kubevirt.KubeVirt](i.Settings, i.settingsKey)
	if ok {
		version = kv.ResourceVersion
	}
	cluster := settings.From(kv)
	return NodeSettings{drainTaint: cluster.DrainTaint(), obsoleteModels: cluster.ObsoleteCPUModels(), version: version}
}

// IsDrained reports whether all guests are to leave a node because of its taint.
func (s NodeSettings) IsDrained(node *corev1.Node) bool {
	return observe.Node(node, false, s.drainTaint).Drain
}

// HasModels reports whether the settings name these obsolete CPU models.
func (s NodeSettings) HasModels(models []string) bool { return slices.Equal(s.obsoleteModels, models) }
