// Package multus is what pods say to Multus, the CNI plugin that gives a pod further networks, and what their
// interfaces on those are called. Both are as in KubeVirt.
package multus
