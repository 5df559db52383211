// Package archive writes container images of a single static program as
// docker-archive files, which containerd imports. There is no registry.
package archive
