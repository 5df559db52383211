package debian

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/deploy/images/debian"
)

// Cluster are the packages that the cluster itself needs.
func Cluster() []string {
	return []string{
		"ca-certificates", "conntrack", "containernetworking-plugins", "e2fsprogs", "iproute2", "iptables", "mount",
		"nftables", "runc",
	}
}

// Postgres are the packages that Temporal on PostgreSQL needs.
func Postgres() []string { return []string{"postgresql"} }

// Test are the packages that compiling everything and running the tests needs:
// the launcher links against libvirt, and Prometheus's promtool checks the alerts.
func Test() []string {
	return []string{"gcc", "libc6-dev", "libvirt-dev", "pkg-config", "prometheus"}
}

// Launcher are the packages that running the launcher's image on the machine itself, without a cluster, needs.
func Launcher() []string {
	return append(Test(), "iproute2", "procps")
}

// Generate are the packages that writing the generated files anew needs.
func Generate() []string { return []string{"protobuf-compiler"} }

// Missing are those of the packages that are not installed.
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

// Install installs the packages; apt's output goes to the file log. It waits for
// another run of apt to end.
func Install(ctx context.Context, packages []string, log string) error {
	out, err := os.Create(log)
	if err != nil {
		return fmt.Errorf("open the log of apt: %w", err)
	}
	defer out.Close() //nolint:errcheck // only a log
	args := append([]string{"-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends"}, packages...)
	err = debian.NewLists(zerolog.New(out)).Use(ctx, func() error {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = out, out
		return cmd.Run()
	})
	if err != nil {
		return fmt.Errorf("install %s: %w; see %s", strings.Join(packages, " "), err, log)
	}
	return nil
}
