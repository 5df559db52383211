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

// Device is where KVM is, as seen from a container that was given it.
const Device = "/dev/kvm"

const trialCommand = "kvm-trial"

// ErrNoAnswer says that a virtual CPU did not halt in time: the machine is very busy, or a guest would hang.
var ErrNoAnswer = errors.New("a virtual CPU did not halt in time") //nolint:gochecknoglobals // a constant error

// TrialCommand is to be part of each program that names itself to a Judge.
func TrialCommand() *cobra.Command {
	return &cobra.Command{
		Use: trialCommand + " DEVICE", Short: "Runs a virtual CPU with KVM until it halts", Hidden: true,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return trial(args[0]) },
	}
}

// Runner runs a command to its end.
type Runner func(*exec.Cmd) error

// Try says why KVM cannot run a guest here; nil: it can. Program is one that has the TrialCommand. A trial that takes
// longer than limit gives ErrNoAnswer; every other error is what is true now.
func Try(ctx context.Context, program, device string, limit time.Duration, run Runner) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0) //nolint:gosec // a device's path, from our own code
	if err != nil {
		return err
	}
	_ = f.Close()
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err
	}
	if !hasVirtualization(string(info)) {
		return errors.New("the CPU shows neither vmx nor svm")
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := run(exec.CommandContext(ctx, program, trialCommand, device)); err != nil { //nolint:gosec // this very program
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return ErrNoAnswer
		}
		return fmt.Errorf("a virtual CPU could not be run: %w", err)
	}
	return nil
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
