package contract

import (
	"maps"
	"slices"
)

// Where the pod of a launcher has the VMI (AnnotationVMISpec): the name of its downward API volume, and of the file.
const (
	VolumeVMI = "vmi"
	FileVMI   = "vmi.json"
)

// MostMetricLabels limits the labels of a VMI that its metrics have, MostMetricLabelBytes their keys and values
// together: each of some hundred series of each guest has them all, in each scrape.
const (
	MostMetricLabels     = 32
	MostMetricLabelBytes = 512
)

// MetricLabels returns the labels of a VMI that its metrics have: without those about its node and its launcher, which
// change while it runs, and cut to the limits in the order of their keys.
func MetricLabels(labels map[string]string) map[string]string {
	out := map[string]string{}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch key {
		case LabelNodeName, LabelMigrationTarget, LabelOutdatedImage:
			continue
		}
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
