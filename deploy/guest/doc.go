// Package guest builds guests for tests: Linux of some 20 MB that boots in seconds even under emulation, made of
// Debian's kernel and busybox, with what a test of a virtual machine asks a guest for: an ACPI power button, a serial
// login, DHCP, SSH, the QEMU guest agent and cloud-init data.
//
// The test guest is the project's own tests'. Its root file system is its initramfs, and it has a web page with its
// name. The stand-ins answer as the distributions do that KubeVirt's functional tests use. Their root file system is on
// the disk, where tests write to it and freeze it.
//
//	initramfs/  the first process of both: devices, modules, the root file system
//	rootfs/     what the roots of both have: the boot, shutdown, services, DHCP, cloud-init
//	testguest/  what only the test guest has: its users, its web page
//	standins/   what all stand-ins have: sudo, systemctl, device names
//	tools/      what the stand-ins of images with test tooling have besides
//
// standin.go has what differs between the stand-ins.
package guest
