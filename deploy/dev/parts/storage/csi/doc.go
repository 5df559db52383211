// Package csi is a CSI driver whose volumes are sparse files on the machine that all nodes of the development cluster
// share, each behind a loop device. That makes volumes what they are elsewhere: they have a size, which is held; they
// can be block devices; they grow, and can be copied from snapshots and from each other. Since the nodes have one
// kernel, a volume used on two of them is one device, and one file system, in both: ReadWriteMany is real.
//
// It is not for anything else: a volume is as safe as the file, and a snapshot of a volume in use is what was on the
// disk while it was read, without a pause.
package csi
