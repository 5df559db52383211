// Package containerd pins containerd, its shim and ctr for the development cluster's nodes. Debian's own containerd is
// too old for image volumes, which need 2.1 or newer. Nothing imports this package.
package containerd
