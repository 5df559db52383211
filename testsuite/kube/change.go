package kube

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// ChangeType is the kind of a change.
type ChangeType string

// Kinds of changes.
const (
	Added    ChangeType = "ADDED"
	Modified ChangeType = "MODIFIED"
	Deleted  ChangeType = "DELETED"
)

// Change is one write. Old and New are typed copies (*corev1.Pod, *kubevirt.VirtualMachine, …) that the receiver may
// keep and alter; Old is nil for Added. For Deleted, New is the last state of the object, with the resourceVersion of
// its deletion.
type Change struct {
	Type      ChangeType
	Resource  string // plural, as in URLs: "pods"
	Namespace string
	Name      string
	UID       string
	Old, New  runtime.Object
}
