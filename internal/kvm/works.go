package kvm

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"
)

// TrialCommand is the argument with which a program that uses Works has to call Trial and exit with 0 when it succeeds.
const TrialCommand = "kvm-trial"

const (
	device = "/dev/kvm"
	// trialLimit is far more than a virtual CPU needs to halt (less than 1 ms), and little to wait for.
	trialLimit = 2 * time.Second
)

// Runner runs a command to its end.
type Runner func(*exec.Cmd) error

// Works says whether KVM can run a guest here, and why not. Self is the program that has TrialCommand.
func Works(ctx context.Context, self string, run Runner) (works bool, why string) {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return false, err.Error()
	}
	_ = f.Close()
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return false, err.Error()
	}
	if !hasVirtualization(string(info)) {
		return false, "the CPU shows neither vmx nor svm"
	}
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	if err := run(exec.CommandContext(ctx, self, TrialCommand)); err != nil {
		if ctx.Err() != nil {
			return false, "a virtual CPU did not halt in time"
		}
		return false, "a virtual CPU could not be run: " + err.Error()
	}
	return true, ""
}

// hasVirtualization looks for the CPU flags of Intel's and AMD's virtualization.
func hasVirtualization(cpuinfo string) bool {
	for line := range strings.Lines(cpuinfo) {
		key, flags, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(key) != "flags" {
			continue
		}
		for _, f := range strings.Fields(flags) {
			if f == "vmx" || f == "svm" {
				return true
			}
		}
	}
	return false
}
