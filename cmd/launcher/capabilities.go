package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/internal/kvm"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/launcher/capabilities"
	"github.com/virtflow/virtflow/launcher/libvirtd"
	"github.com/virtflow/virtflow/launcher/reaper"
)

const (
	// launcherUser runs libvirt here as in every launcher's pod.
	launcherUser = 107
	// findLimit is the time for everything: libvirt may have to probe the emulator.
	findLimit = 2 * time.Minute
)

// capabilitiesCommand writes the capabilities of this host to a file, for the node worker. A failure is no error of the
// process: the guests of this node need their node worker nevertheless.
func capabilitiesCommand(o *options) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "capabilities", Short: "Writes what libvirt and QEMU offer guests on this host", Args: cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), findLimit)
			defer cancel()
			if output == "" {
				return o.printCapabilities(ctx)
			}
			if err := writeCapabilities(ctx, output); err != nil {
				fmt.Fprintln(os.Stderr, "what this host offers guests is not known:", err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&output, "output", "",
		"file to write; as root, libvirt then runs as the launchers' user. Without it the answer is printed")
	o.add(f)
	return cmd
}

// writeCapabilities has a process of the launchers' user determine them, and writes its answer in one step.
func writeCapabilities(ctx context.Context, output string) error {
	if err := os.Remove(output); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing what was found earlier: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	// The container's own device file: a launcher's pod has one that its user may open, too.
	if err := os.Chmod(kvm.Device, 0o666); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("opening %s to libvirt: %w", kvm.Device, err)
	}
	private, err := os.MkdirTemp("", "host-")
	if err != nil {
		return fmt.Errorf("making a directory for libvirt: %w", err)
	}
	defer os.RemoveAll(private)
	if err := os.Chown(private, launcherUser, launcherUser); err != nil {
		return fmt.Errorf("making a directory for libvirt: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "capabilities", "--private-dir", private)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: launcherUser, Gid: launcherUser}}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("asking libvirt: %w", err)
	}
	if err := renameio.WriteFile(output, said.Bytes(), 0o644, renameio.WithTempDir(filepath.Dir(output))); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// printCapabilities reads the host's capabilities from libvirt, and prints them.
func (o *options) printCapabilities(ctx context.Context) error {
	if err := os.Setenv("LIBVIRT_AUTOSTART", "0"); err != nil {
		return fmt.Errorf("preparing the environment: %w", err)
	}
	log, err := process.NewLogger("launcher", "info", "json")
	if err != nil {
		return err
	}
	// libvirt waits until the emulator that it probed is reaped: this process must do that, as the first one of a
	// launcher's pod does.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("taking over orphans: %w", err)
	}
	processes := reaper.New()
	go processes.Reap(context.WithoutCancel(ctx))
	loop, err := libvirtd.StartEventLoop(log)
	if err != nil {
		return err
	}
	problem := kvm.Judge(ctx, tryKVM(processes))
	log.Info().Bool("kvm", problem == nil).AnErr("why", problem).Msg("determining capabilities of this host")
	found, err := capabilities.Find(ctx, libvirtd.New(loop, libvirtd.Config{
		Daemon: o.daemon, Emulator: o.launcher.Emulator, Private: o.launcher.Private, Capabilities: o.capabilities,
		Domain: "none",
	}, processes, log), problem == nil)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		return fmt.Errorf("printing the answer: %w", err)
	}
	return nil
}
