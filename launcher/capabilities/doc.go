// Package capabilities finds out what the launcher's libvirt and QEMU offer guests on a host: machine types, CPU models
// and features. It is run by the node worker's pod before the node worker, which has no libvirt of its own.
package capabilities
