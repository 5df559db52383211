package contract

import (
	"maps"
	"slices"
	"strings"
)

// Where the pod of a launcher has the VMI (AnnotationVMISpec): the name of its downward API volume, and of the file.
const (
	VolumeVMI = "vmi"
	FileVMI   = "vmi.json"
)

// MostMetricLabels limits the labels of an object that its metrics have, MostMetricLabelBytes their keys and values
// together: each of some hundred series of each guest has them all, in each scrape.
const (
	MostMetricLabels     = 32
	MostMetricLabelBytes = 512
)

// MetricLabels returns the labels of a VMI that its metrics have: without those about its node and its launcher, which
// change while it runs, and cut to the limits.
func MetricLabels(labels map[string]string) map[string]string {
	lasting := maps.Clone(labels)
	for _, key := range []string{LabelNodeName, LabelMigrationTarget, LabelOutdatedImage} {
		delete(lasting, key)
	}
	return LimitMetricLabels(lasting)
}

// LimitMetricLabels returns labels cut to the limits, in the order of their keys.
func LimitMetricLabels(labels map[string]string) map[string]string {
	out := map[string]string{}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		size += len(key) + len(labels[key])
		if len(out) == MostMetricLabels || size > MostMetricLabelBytes {
			break
		}
		out[key] = labels[key]
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// NameMetricLabels returns labels of an object as labels of a metric. The function name gets a key with the characters
// that Prometheus permits, and returns the name. Of keys with the same name, the first counts.
func NameMetricLabels(labels map[string]string, name func(key string) string) map[string]string {
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		name := name(MetricLabelKey(key))
		if _, taken := out[name]; !taken {
			out[name] = strings.ToValidUTF8(labels[key], "")
		}
	}
	return out
}

// MetricLabelKey returns a label's key with the characters that Prometheus permits in names of labels.
func MetricLabelKey(key string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, key)
}
