// Package kubevirt pins the versions of which KubeVirt's own operator, virt-api and virt-controller are built.
package kubevirt
