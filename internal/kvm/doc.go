// Package kvm finds out whether KVM truly works: that /dev/kvm opens proves nothing, since under some hypervisors a guest started with it hangs.
// The trial runs a virtual CPU in a process of its own with a time limit, so that a hang is the answer no.
package kvm
