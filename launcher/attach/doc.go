// Package attach connects callers to the devices of the guest that have a Unix socket in the pod: the serial console,
// the screen (VNC), and the ports for callers' USB devices. A device has one session at a time, as in KubeVirt: a newer
// one ends the older, unless it asks to preserve it. Of the USB ports each caller gets a free one.
package attach
