// Package domain builds a libvirt domain from a VirtualMachineInstance. It is pure: what it needs to know of the
// machine (does KVM work, which files hold the disks, which tap devices there are) comes in as Input, and equal input
// gives equal XML.
package domain
