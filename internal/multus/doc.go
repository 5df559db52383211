// Package multus has the annotations of pods for Multus, the CNI plugin that connects a pod to further networks, and
// the names of their interfaces there. Both are as in KubeVirt.
package multus
