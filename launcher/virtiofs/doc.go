// Package virtiofs runs a virtiofsd for each volume that a guest mounts as a file system. KubeVirt runs each in a
// container of its own. Here they are children of the launcher, which has the volumes mounted already, and runs as the
// same user.
package virtiofs
