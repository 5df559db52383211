// Package support holds the list of everything in KubeVirt's API that virtflow does something about. A field that is
// not on the list and is set is refused by name: nothing is accepted and then ignored. Whoever makes a field work adds
// it to the list.
package support
