// Package state lays out the PVC with a machine's persistent state. Each launcher works in a directory of its own
// there, and one of these is current. So the two ends of a migration, which both mount the PVC, never write to the same
// files, and libvirt carries the content from one to the other with the guest. (Debian 13's swtpm cannot share a
// directory.)
package state
