// Package poddevice makes sure that a launcher's user may open the device nodes in its pod's /dev, whatever owner they
// have on the node and however the container runtime makes them.
package poddevice
