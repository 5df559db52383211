// Package bindings has the binding plugins that the KubeVirt object configures, as far as they need no program of their
// own beside the launcher: for these, the pod's network itself connects the guest's tap device.
package bindings
