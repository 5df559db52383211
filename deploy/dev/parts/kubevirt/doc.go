// Package kubevirt pins the versions of which KubeVirt's own operator, virt-api, virt-controller, virtctl, load
// generator and functional tests are built.
package kubevirt
