// Package domain builds a libvirt domain from a VirtualMachineInstance. It is pure: facts about the machine (whether
// KVM works, the files behind the disks, the tap devices) come in as Input, and equal input gives equal XML.
package domain
