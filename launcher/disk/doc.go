// Package disk prepares the files behind a VMI's disks before its domain is built. Plan is pure and lists the files.
// Prepare makes them: an overlay on each read-only containerDisk, an empty image for each emptyDisk, an ISO with
// cloud-init data or with the files of a Secret, ConfigMap or the like, the file disk.img on a PVC's file system, and
// an overlay on an ephemeral PVC. If it is repeated, it finds the files that it made. Boot finds the kernel of
// firmware.kernelBoot.
//
//	plan.go, planiso.go   the list of files
//	prepare.go            making them, by the volumes' kinds; iso.go and claim.go have two of these
//	find.go, boot.go      images and kernels within what is mounted
//	qemuimg.go            the program qemu-img
//	migrate.go            what a migration carries, compares and awaits
package disk
