// Package realtest tries the launcher on real libvirt and real QEMU (under emulation), as in a pod: first process of a
// PID namespace, without root and capabilities, killed and stopped from outside. It has only tests:
//
//	go test -tags libvirt ./launcher/realtest
//
// They need root, libvirt-daemon, libvirt-dev, qemu-system-x86 and qemu-utils, and a test guest: VIRTFLOW_TEST_GUEST
// names its disk image; without it the newest one in the cache is taken (go run ./deploy/images build --only guest).
package realtest
