// Package virtiofs runs a virtiofsd for each volume that a guest has as a file system. KubeVirt runs each in a
// container of its own; here they are children of the launcher, which has the volumes anyway, and runs as the same
// user.
package virtiofs
