// Package kvm finds out whether KVM truly works: that /dev/kvm opens proves nothing, since under some hypervisors a
// guest started with it hangs. The trial runs a virtual CPU in a process of its own with a time limit. Without an
// answer it is tried again with more time, since the machine may just be busy, and what was found is looked at again
// later: a module may be loaded or taken away.
package kvm
