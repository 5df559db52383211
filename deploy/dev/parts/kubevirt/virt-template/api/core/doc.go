// Package core has the names of the API of virtual machine templates. Its module replaces
// kubevirt.io/virt-template-api, which the module proxies do not serve: it has what KubeVirt's own programs and tests
// need of that API to be compiled.
package core
