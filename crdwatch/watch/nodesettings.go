package watch

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
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
	read := i.Settings.LastSyncResourceVersion() // of two with the same version the later one counts
	kv, ok := Get[*kubevirt.KubeVirt](i.Settings, i.settingsKey)
	version := ""
	if ok {
		version = kv.ResourceVersion
		i.absence.end()
	} else {
		version = i.absence.version(read)
	}
	cluster := settings.From(kv)
	return NodeSettings{drainTaint: cluster.DrainTaint(), obsoleteModels: cluster.ObsoleteCPUModels(), version: version}
}

// IsDrained reports whether all guests are to leave a node because of its taint.
func (s NodeSettings) IsDrained(node *corev1.Node) bool {
	return observe.Node(node, false, s.drainTaint).Drain
}

// IsOf reports whether a node was observed with these settings, whatever their version.
func (s NodeSettings) IsOf(o contract.NodeObservation) bool {
	return s.drainTaint == cmp.Or(o.DrainTaint, contract.TaintDrain) &&
		slices.Equal(s.obsoleteModels, o.ObsoleteCPUModels)
}

// IsSame reports whether other settings are the same but for their version.
func (s NodeSettings) IsSame(other NodeSettings) bool {
	return s.drainTaint == other.drainTaint && slices.Equal(s.obsoleteModels, other.obsoleteModels)
}

// absence has the version up to which the KubeVirt object was known not to exist when that was first seen. What the
// informer reads later may be ahead of its store, which may lack an object that was created meanwhile.
type absence struct {
	mu    sync.Mutex
	since string // "": not seen
}

// version returns the version of an absence that begins at read, or has begun before.
func (a *absence) version(read string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since == "" {
		a.since = read
	}
	return a.since
}

// end records that the object exists.
func (a *absence) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since = ""
}
