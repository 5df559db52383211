// Package support lists the fields of KubeVirt's API that virtflow supports. A field that is set and not on the list is
// refused by name: no field is accepted and then ignored. A change that makes a field work adds it to the list.
package support
