package debian

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/deploy/images/debian"
)

// Compiler returns the packages for compiling C: Temporal has SQLite compiled in.
func Compiler() []string { return []string{"gcc", "libc6-dev"} }

// Cluster are the packages that the cluster itself needs.
func Cluster() []string {
	return append(Compiler(),
		"ca-certificates", "conntrack", "containernetworking-plugins", "e2fsprogs", "iproute2", "iptables", "mount",
		"nftables", "runc",
	)
}

// Postgres are the packages that Temporal on PostgreSQL needs.
func Postgres() []string { return []string{"postgresql"} }

// Temporal are the packages that building Temporal's server, and testing it on each of its databases, needs.
func Temporal() []string { return append(Compiler(), Postgres()...) }

// Test are the packages that compiling everything and running the tests needs: the launcher links against libvirt.
func Test() []string {
	return append(Compiler(), "libvirt-dev", "pkg-config")
}

// Launcher are the packages that running the launcher's image on the machine itself, without a cluster, needs.
func Launcher() []string {
	return append(Test(), "iproute2", "procps")
}

// Generate returns the packages for writing the generated files again.
func Generate() []string { return []string{"protobuf-compiler"} }

// Missing returns the packages that are not installed.
func Missing(ctx context.Context, packages []string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n").Output()
	if err != nil {
		return nil, fmt.Errorf("ask dpkg what is installed (Debian 12 is needed): %w", err)
	}
	return missing(string(out), packages), nil
}

func missing(installed string, packages []string) []string {
	have := map[string]bool{}
	for line := range strings.Lines(installed) {
		if name, status, _ := strings.Cut(strings.TrimSpace(line), " "); status == "installed" {
			have[name] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return have[p] })
}

// lockFile is held while packages are installed: two runs at once would remove each other's policy.
const lockFile = "/run/lock/virtflow-packages"

// Install installs the packages; apt's output goes to the file log. It waits for
// another run of its own, and for another run of apt to end.
func Install(ctx context.Context, packages []string, log string) error {
	out, err := os.Create(log)
	if err != nil {
		return fmt.Errorf("open the log of apt: %w", err)
	}
	defer out.Close()
	lock, err := os.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("take the lock of installations: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("take the lock of installations: %w", err)
	}
	args := append([]string{"-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends"}, packages...)
	err = withoutServices(policyFile, func() error {
		return debian.NewLists(zerolog.New(out)).Use(ctx, func() error {
			cmd := exec.CommandContext(ctx, "apt-get", args...)
			cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
			cmd.Stdout, cmd.Stderr = out, out
			return cmd.Run()
		})
	})
	if err != nil {
		return fmt.Errorf("install %s: %w; see %s", strings.Join(packages, " "), err, log)
	}
	return nil
}

// policyFile is the program by which Debian's packages check whether they may start a service, if it exists: see
// invoke-rc.d(8).
const policyFile = "/usr/sbin/policy-rc.d"

// forbid refuses every start.
const forbid = "#!/bin/sh\n# virtflow's, while it installs packages. One that stays is of a run that was killed.\nexit 101\n"

// withoutServices keeps packages that are installed from starting services: nothing here uses one. Of postgresql the
// programs are run, with data of their own. A policy that the machine has is left as it is.
func withoutServices(policy string, do func() error) (err error) {
	if have, err := os.ReadFile(policy); err == nil && string(have) == forbid {
		if err := os.Remove(policy); err != nil {
			return fmt.Errorf("remove what a killed run left: %w", err)
		}
	}
	f, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return do()
	}
	if err != nil {
		return fmt.Errorf("keep services from starting: %w", err)
	}
	defer func() {
		if failed := os.Remove(policy); failed != nil {
			err = errors.Join(err, fmt.Errorf("let services start again: %w", failed))
		}
	}()
	_, err = f.WriteString(forbid)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keep services from starting: %w", err)
	}
	return do()
}
