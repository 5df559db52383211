// Package state lays out the claim with what a machine remembers. Each launcher works in a directory of its own there,
// and one of these is current: so the two ends of a migration, which both have the claim, never write to the same
// files, and libvirt carries the content of one to the other with the guest. (Debian 13's swtpm cannot share a
// directory.)
package state
