// Package libvirtd runs the libvirt daemon of one pod and speaks with it: it writes the daemon's configuration, starts
// it, starts it again when it dies (QEMU lives on without it), reconnects, and reports the state of the one domain. It
// is the only package that imports libvirt's bindings, so it alone needs cgo and libvirt-dev to be built.
//
// It reads the state from libvirt after each event and each reconnect instead of believing events: those of a guest
// that ended while the daemon was down never arrive, and Started and Resumed arrive in either order.
package libvirtd
