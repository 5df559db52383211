// Package kvm determines whether KVM works. That /dev/kvm opens proves nothing, since under some hypervisors a guest
// started with it hangs. The trial runs a virtual CPU in a process of its own with a time limit. Without an answer it
// is tried again with more time, since the machine may just be busy. The result is checked again later, since a module
// may be loaded or removed.
package kvm
