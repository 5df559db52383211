package kube

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// ChangeType is what became of an object.
type ChangeType string

// What can become of an object.
const (
	Added    ChangeType = "ADDED"
	Modified ChangeType = "MODIFIED"
	Deleted  ChangeType = "DELETED"
)

// Change is one write that was made. Old and New are typed copies (*corev1.Pod, *kubevirt.VirtualMachine, …) that the
// receiver may keep and alter; Old is nil for Added. For Deleted, New is the object as it was last, with the
// resourceVersion of its deletion.
type Change struct {
	Type      ChangeType
	Resource  string // plural, as in URLs: "pods"
	Namespace string
	Name      string
	UID       string
	Old, New  runtime.Object
}
