// Package cloudinit lists the files from which cloud-init in a guest reads its data: those of its NoCloud and of its
// ConfigDrive data source.
package cloudinit
