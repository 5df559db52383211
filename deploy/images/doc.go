// Command images builds virtflow's container images without a container engine and without a registry: Go binaries in
// otherwise empty images, the launcher with a small closure of Debian's libvirt and QEMU, and the test guest's disk.
//
//	go run ./deploy/images build [--only launcher,guest]
//	go run ./deploy/images conformance
//	go run ./deploy/images verify
//
// The archives lie in ${VIRTFLOW_CACHE:-~/.cache/virtflow}/images/NAME-TAG.oci.tar, and beside each what it is made of,
// NAME-TAG.cdx.json. A tag is a hash of what went in, so
// what is there already is not built again.
package main
