// Package realtest tries the launcher's image with real libvirt and real QEMU (under emulation), as in a pod: first
// process of a PID namespace, with the image as its only file system, without root and capabilities, killed and stopped
// from outside. It has only tests:
//
//	go test -tags libvirt ./launcher/realtest
//
// They need root, and build the images of the launcher and of the test guest where they are not in the cache.
package realtest
