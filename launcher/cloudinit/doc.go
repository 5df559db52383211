// Package cloudinit writes the ISO image from which cloud-init in a guest reads its data (the NoCloud data source).
package cloudinit
