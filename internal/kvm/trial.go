package kvm

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From linux/kvm.h, on amd64.
const (
	getAPIVersion  = 0xAE00
	createVM       = 0xAE01
	getRunSize     = 0xAE04
	createVCPU     = 0xAE41
	setMemory      = 0x4020AE46
	setTSSAddress  = 0xAE47
	setIdentityMap = 0x4008AE48
	run            = 0xAE80
	setRegs        = 0x4090AE82
	getSregs       = 0x8138AE83
	setSregs       = 0x4138AE84

	apiVersion   = 12
	exitHalt     = 5
	regsSize     = 0x90
	sregsSize    = 0x138
	ripOffset    = 16 * 8
	rflagsOffset = 17 * 8
	exitOffset   = 8 // of exit_reason in struct kvm_run
	csSelector   = 12

	codeAddress = 0x1000
	pageSize    = 4096
	halt        = 0xF4
	// Some Intel CPUs need three pages below 4 GiB in real mode, and one more; this is where QEMU puts them.
	tssAddress = 0xfffbd000
	identity   = 0xfffbc000
)

type memoryRegion struct {
	slot, flags               uint32
	guest, size, userspacePtr uint64
}

// trial creates a virtual machine with one CPU that halts, and runs it. It hangs where KVM does, so it needs a process
// of its own.
func trial(device string) error {
	runtime.LockOSThread() // a virtual CPU belongs to a thread
	kvm, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening %s: %w", device, err)
	}
	if v, err := ioctl(kvm, getAPIVersion, 0); err != nil || v != apiVersion {
		return fmt.Errorf("KVM's API version is %d, wanted %d: %w", v, apiVersion, err)
	}
	vm, err := ioctl(kvm, createVM, 0)
	if err != nil {
		return fmt.Errorf("creating a virtual machine: %w", err)
	}
	id := uint64(identity)
	if _, err := ioctl(vm, setIdentityMap, uintptr(unsafe.Pointer(&id))); err != nil {
		return fmt.Errorf("setting the identity map's address: %w", err)
	}
	if _, err := ioctl(vm, setTSSAddress, tssAddress); err != nil {
		return fmt.Errorf("setting the task state's address: %w", err)
	}
	code, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("reserving guest memory: %w", err)
	}
	code[0] = halt
	region := memoryRegion{guest: codeAddress, size: pageSize, userspacePtr: uint64(uintptr(unsafe.Pointer(&code[0])))}
	if _, err := ioctl(vm, setMemory, uintptr(unsafe.Pointer(&region))); err != nil {
		return fmt.Errorf("giving the machine memory: %w", err)
	}
	vcpu, err := ioctl(vm, createVCPU, 0)
	if err != nil {
		return fmt.Errorf("creating a virtual CPU: %w", err)
	}
	return runToHalt(kvm, vcpu)
}

func runToHalt(kvm, vcpu int) error {
	size, err := ioctl(kvm, getRunSize, 0)
	if err != nil {
		return fmt.Errorf("reading the size of the CPU's state: %w", err)
	}
	state, err := unix.Mmap(vcpu, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping the CPU's state: %w", err)
	}
	var sregs [sregsSize]byte
	if _, err := ioctl(vcpu, getSregs, uintptr(unsafe.Pointer(&sregs))); err != nil {
		return fmt.Errorf("reading segment registers: %w", err)
	}
	// The code segment comes first in the structure: base 0, selector 0.
	clear(sregs[:8])
	clear(sregs[csSelector : csSelector+2])
	if _, err := ioctl(vcpu, setSregs, uintptr(unsafe.Pointer(&sregs))); err != nil {
		return fmt.Errorf("writing segment registers: %w", err)
	}
	var regs [regsSize]byte
	binary.LittleEndian.PutUint64(regs[ripOffset:], codeAddress)
	binary.LittleEndian.PutUint64(regs[rflagsOffset:], 2) // bit 1 is always set
	if _, err := ioctl(vcpu, setRegs, uintptr(unsafe.Pointer(&regs))); err != nil {
		return fmt.Errorf("writing registers: %w", err)
	}
	if _, err := ioctl(vcpu, run, 0); err != nil {
		return fmt.Errorf("running the virtual CPU: %w", err)
	}
	if reason := binary.LittleEndian.Uint32(state[exitOffset:]); reason != exitHalt {
		return fmt.Errorf("the virtual CPU stopped for reason %d instead of halting", reason)
	}
	return nil
}

func ioctl(fd int, request, argument uintptr) (int, error) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, argument) // KVM has no other interface
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 0, errno
		}
		return int(r), nil
	}
}
