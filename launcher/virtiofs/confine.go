package virtiofs

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"github.com/spf13/cobra"
)

// commandName is the name by which the launcher is called to become a virtiofsd.
const commandName = "virtiofsd"

// socketFD is the descriptor of the daemon's socket: the first that os/exec passes on.
const socketFD = 3

// leastABI is the first Landlock ABI that lets a guest rename files from one directory to another.
const leastABI = 2

// errNoLandlock is for the node's administrator, who has to enable Landlock.
var errNoLandlock = errors.New("the kernel of this node has no Landlock, without which a guest could access more " +
	"than its file systems: use Linux 5.19 or later, with landlock in its lsm= setting")

// Command returns the command that becomes a virtiofsd, which can access its directory, programs and libraries, and
// nothing else of the container. virtiofsd passes most names on as the guest's kernel sends them, ".." and "/" among
// them, and relies on a sandbox; its own sandboxes need privileges that no launcher has.
// https://gitlab.com/virtio-fs/virtiofsd#sandbox-modes
func Command() *cobra.Command {
	var program, directory string
	cmd := &cobra.Command{
		Use: commandName, Hidden: true, Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			if err := confine(directory); err != nil {
				return err
			}
			err := syscall.Exec(program, []string{program, fmt.Sprintf("--fd=%d", socketFD),
				"--shared-dir=" + directory, "--sandbox=none", "--cache=auto", "--log-level=warn"}, os.Environ())
			return fmt.Errorf("becoming %s: %w", program, err)
		},
	}
	cmd.Flags().StringVar(&program, "program", "", "virtiofsd program")
	cmd.Flags().StringVar(&directory, "shared-dir", "", "the directory that the guest gets")
	return cmd
}

// confine denies this process, and whatever it executes, all files but these.
func confine(directory string) error {
	if err := confinable(); err != nil {
		return err
	}
	err := landlock.V3.BestEffort().RestrictPaths(
		landlock.RODirs("/usr", "/lib", "/lib64", "/proc").IgnoreIfMissing(),
		landlock.ROFiles("/etc/ld.so.cache").IgnoreIfMissing(),
		landlock.RWDirs(directory).WithRefer())
	if err != nil {
		return fmt.Errorf("confining virtiofsd to %s: %w", directory, err)
	}
	return nil
}

// confinable returns why file systems cannot be confined on this node; nil if they can.
func confinable() error {
	if abi, err := ll.LandlockGetABIVersion(); err != nil || abi < leastABI {
		return errNoLandlock
	}
	return nil
}
