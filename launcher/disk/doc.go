// Package disk prepares the files behind a VMI's disks before its domain is built. Plan is pure and says what there has
// to be; Prepare makes it: an overlay on each read-only containerDisk, an empty image for each emptyDisk, an ISO with
// cloud-init data or with the files of a Secret, ConfigMap or the like, the file disk.img on a claim's file system, and
// an overlay on an ephemeral claim. Doing it again finds what was made. Boot finds the kernel of firmware.kernelBoot.
//
//	plan.go, planiso.go   what there has to be
//	prepare.go            making it, by the volumes' kinds; iso.go and claim.go have two of these
//	find.go, boot.go      images and kernels within what is mounted
//	qemuimg.go            the program qemu-img
//	migrate.go            what a migration carries, compares and awaits
package disk
