package kvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Device is the path of KVM in a container that was given it.
const Device = "/dev/kvm"

const trialCommand = "kvm-trial"

// ErrNoAnswer means that a virtual CPU did not halt in time: the machine is very busy, or a guest would hang.
var ErrNoAnswer = errors.New("a virtual CPU did not halt in time")

// TrialCommand returns the command that each program must have which passes its own path to Try.
func TrialCommand() *cobra.Command {
	return &cobra.Command{
		Use: trialCommand + " DEVICE", Short: "Runs a virtual CPU with KVM until it halts", Hidden: true,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return trial(args[0]) },
	}
}

// Runner runs a command to its end.
type Runner func(*exec.Cmd) error

// Try returns why KVM cannot run a guest here; nil if it can. Program must have the TrialCommand. A trial that takes
// longer than limit returns ErrNoAnswer; every other error is conclusive.
func Try(ctx context.Context, program, device string, limit time.Duration, run Runner) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0) // a device's path, from our own code
	if err != nil {
		return err
	}
	_ = f.Close()
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err
	}
	if !hasVirtualization(string(info)) {
		return errors.New("the CPU has neither vmx nor svm")
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := run(exec.CommandContext(ctx, program, trialCommand, device)); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return ErrNoAnswer
		}
		return fmt.Errorf("running a virtual CPU: %w", err)
	}
	return nil
}

// hasVirtualization reports whether the CPU has the flags of Intel's or AMD's virtualization.
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
