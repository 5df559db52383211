// Package attach connects callers with the devices of the guest that have a Unix socket in the pod: the serial console,
// the screen (VNC), and the ports for callers' USB devices. A device has one session at a time, as KubeVirt has it: a
// newer one ends the older, unless it asks for the older to be preserved. Of USB's ports each newcomer gets a free one.
package attach
