// Package reaper does the work of a container's first process: it collects the exit status of every process whose
// parent is gone (QEMU detaches itself from libvirtd), without taking it from code that started a process and waits for
// it. libvirtd waits for its own detached children, and stalls for more than a minute if they are not collected.
package reaper
