// Package guest builds the test guest: a Linux of about 20 MB that boots in seconds even under emulation, made of
// Debian's kernel and busybox, with what a test of a virtual machine asks a guest for: an ACPI power button, a serial
// login, DHCP, SSH, the QEMU guest agent, cloud-init data, and a web page that says its name. Its own scripts lie in
// rootfs/.
package guest
