// Package libvirtd runs the libvirt daemon of one pod and speaks with it. It writes the daemon's configuration, starts
// it, restarts it when it dies (QEMU continues without it), reconnects, and reports the state of the one domain. It is
// the only package that imports libvirt's bindings, so only it needs cgo and libvirt-dev to build.
//
// It reads the state from libvirt after each event and each reconnect instead of relying on events: those of a guest
// that ended while the daemon was down never arrive, and Started and Resumed arrive in either order.
package libvirtd
