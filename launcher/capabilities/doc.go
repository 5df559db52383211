// Package capabilities determines what the launcher's libvirt and QEMU offer to guests on a host: machine types, CPU
// models and features. The node worker's pod runs it before the node worker, which has no libvirt of its own.
package capabilities
