// Package attach connects callers with the devices of the guest that have a Unix socket in the pod: the serial console
// and the screen (VNC). A device has one session at a time, as KubeVirt has it: a newer one ends the older, unless it
// asks for the older to be preserved.
package attach
