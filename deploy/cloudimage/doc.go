// Package cloudimage builds a cloud image of Debian: a disk with a whole distribution (systemd, cloud-init, SSH, the
// QEMU guest agent) that boots by BIOS, and by UEFI with and without secure boot. Tests use it to see what users' own
// images find in a machine.
//
//	system.go   what is installed, and how it is set up
//	disk.go     the partitions, their file systems and the boot loaders
package cloudimage
