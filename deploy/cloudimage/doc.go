// Package cloudimage builds a cloud image of Debian: a disk with a whole distribution (systemd, cloud-init, SSH, the
// QEMU guest agent) that boots by BIOS, and by UEFI with and without secure boot. Tests use it as an example of users'
// own images.
//
//	system.go   what is installed, and how it is set up
//	disk.go     the partitions, their file systems and the boot loaders
package cloudimage
