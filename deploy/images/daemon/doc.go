// Package daemon runs the libvirt of a launcher image's unpacked root in a sandbox, as the user and with the settings
// of a launcher pod, and talks to it with virsh from outside. Image builds probe QEMU with it and verify boots a guest.
package daemon
