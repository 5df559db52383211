package statistics

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

const (
	prefix = "kubevirt_vmi_"
	// labelPrefix begins KubeVirt's names of labels of metrics that are labels of the VMI.
	labelPrefix = "kubernetes_vmi_label_"
	// mostFileSystems limits the file systems that a guest may have shown within fileSystemKept: one that mounts others
	// all the time would make new series without end.
	mostFileSystems = 256
	// fileSystemKept is how long a file system counts after the guest has last shown it.
	fileSystemKept = time.Hour
)

// vmiLabels are the labels of all metrics of guests.
func vmiLabels() []string { return []string{"node", "namespace", "name"} }

// known has what is kept of a guest between scrapes. One scrape at a time uses it.
type known struct {
	vmi                contract.Object
	vcpus              uint32             // that the VMI may have
	descriptions       []*prometheus.Desc // by id
	drives, interfaces map[string]bool
	fileSystems        map[fileSystem]time.Time // when each was last shown
}

type fileSystem struct{ disk, mount, kind string }

// newKnown returns what is known of the guest of a pod before its first scrape.
func newKnown(node string, m launchers.Machine) *known {
	labels := prometheus.Labels(contract.NameMetricLabels(m.Labels, metricLabel))
	labels["node"], labels["namespace"], labels["name"] = node, m.VMI.Namespace, m.VMI.Name
	// KubeVirt has this label on the VMI while it runs.
	labels[metricLabel(contract.MetricLabelKey(contract.LabelNodeName))] = node
	k := &known{
		vmi: m.VMI, vcpus: m.VCPUs,
		drives: map[string]bool{}, interfaces: map[string]bool{}, fileSystems: map[fileSystem]time.Time{},
	}
	for _, metric := range metrics() {
		k.descriptions = append(k.descriptions,
			prometheus.NewDesc(prefix+metric.name, metric.help, metric.labels, labels))
	}
	for _, name := range m.Disks {
		k.drives[name] = true
	}
	for _, name := range m.Interfaces {
		k.interfaces[name] = true
	}
	return k
}

// metricLabel returns KubeVirt's name for a label of a VMI.
func metricLabel(key string) string { return labelPrefix + key }

// restrict drops of an answer what would be no series of this guest: devices and virtual CPUs that its VMI does not
// have, anything that is there twice, and file systems past the limit. It returns how many file systems are past it.
func (k *known) restrict(s *rpc.StatisticsResponse, now time.Time) (dropped int) {
	vcpus := map[uint32]bool{}
	s.Vcpus = slices.DeleteFunc(s.Vcpus, func(v *rpc.VCPUStatistics) bool {
		return v.GetId() >= k.vcpus || isRepeated(vcpus, v.GetId())
	})
	drives, interfaces := map[string]bool{}, map[string]bool{}
	s.Drives = slices.DeleteFunc(s.Drives, func(d *rpc.DriveStatistics) bool {
		return !k.drives[d.GetName()] || isRepeated(drives, d.GetName())
	})
	s.Interfaces = slices.DeleteFunc(s.Interfaces, func(i *rpc.InterfaceStatistics) bool {
		return !k.interfaces[i.GetName()] || isRepeated(interfaces, i.GetName())
	})
	maps.DeleteFunc(k.fileSystems, func(_ fileSystem, shown time.Time) bool {
		return now.Sub(shown) >= fileSystemKept
	})
	files := map[fileSystem]bool{}
	s.FileSystems = slices.DeleteFunc(s.FileSystems, func(f *rpc.GuestFileSystem) bool {
		this := fileSystem{f.GetDiskName(), f.GetMountPoint(), f.GetType()}
		if isRepeated(files, this) {
			return true
		}
		if _, isKnown := k.fileSystems[this]; !isKnown && len(k.fileSystems) >= mostFileSystems {
			dropped++
			return true
		}
		k.fileSystems[this] = now
		return false
	})
	return dropped
}

func isRepeated[K comparable](seen map[K]bool, key K) bool {
	repeated := seen[key]
	seen[key] = true
	return repeated
}

// emit returns the metrics of an answer, and how many file systems they lack.
func (k *known) emit(s *rpc.StatisticsResponse, kinds []metric) (out []prometheus.Metric, dropped int) {
	dropped = k.restrict(s, time.Now())
	values := measure(s)
	out = make([]prometheus.Metric, 0, len(values))
	for _, v := range values {
		m, err := prometheus.NewConstMetric(k.descriptions[v.metric], kinds[v.metric].kind, v.value, v.labels...)
		if err == nil {
			out = append(out, m)
		}
	}
	return out, dropped
}
