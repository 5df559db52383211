// Package reaper is what a container's first process owes the rest: it collects the exit status of every process whose
// parent is gone (QEMU detaches itself from libvirtd), without taking it away from the code that started a process and
// waits for it. libvirtd waits for its own detached children and stalls for more than a minute where nobody collects
// them.
package reaper
