package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/virtflow/virtflow/deploy/dev/cluster"
	"github.com/virtflow/virtflow/deploy/dev/debian"
	"github.com/virtflow/virtflow/deploy/dev/parts"
	"github.com/virtflow/virtflow/deploy/dev/vulnerabilities"
)

// clusterVerbs returns the commands about the cluster itself.
func clusterVerbs() []*cobra.Command {
	var purge bool
	down := &cobra.Command{
		Use: "down", Short: "End everything of the cluster; state and builds are kept", Args: cobra.NoArgs,
		RunE: with(func(ctx context.Context, c cluster.Cluster, _ []string) error { return c.Down(ctx, purge) }),
	}
	down.Flags().BoolVar(&purge, "purge", false, "delete the cluster's state, too")
	var off bool
	multus := &cobra.Command{
		Use: "multus", Short: "Give pods the further networks that they ask for", Args: cobra.NoArgs,
		RunE: with(func(ctx context.Context, c cluster.Cluster, _ []string) error {
			if off {
				return c.WithoutMultus(ctx)
			}
			return c.Multus(ctx)
		}),
	}
	multus.Flags().BoolVar(&off, "off", false, "give them their own network only")
	return []*cobra.Command{
		{
			Use: "up", Short: "Build what is missing, start what does not run, wait until it is usable",
			Args: cobra.NoArgs,
			RunE: with(func(ctx context.Context, c cluster.Cluster, _ []string) error { return up(ctx, c) }),
		},
		{
			Use: "storage", Short: "Like up, with a CSI driver and a StorageClass; the cluster keeps them",
			Args: cobra.NoArgs,
			RunE: with(func(ctx context.Context, c cluster.Cluster, _ []string) error {
				c.Storage = true
				return up(ctx, c)
			}),
		},
		down,
		multus,
		{
			Use: "status", Short: "Show every process and whether the cluster is well", Args: cobra.NoArgs,
			RunE: with(func(ctx context.Context, c cluster.Cluster, _ []string) error { return c.Status(ctx) }),
		},
		{
			Use: "env", Short: `Print export lines for a shell: eval "$(make env)"`, Args: cobra.NoArgs,
			RunE: with(func(_ context.Context, c cluster.Cluster, _ []string) error {
				c.Env(os.Getenv("PATH"))
				return nil
			}),
		},
		{
			Use: "kill PROCESS", Short: "Kill a process as a crash would; it is started again",
			Args: cobra.ExactArgs(1),
			RunE: with(func(ctx context.Context, c cluster.Cluster, args []string) error {
				return c.Kill(ctx, args[0])
			}),
		},
		{
			Use: "restart PROCESS", Short: "Stop a process in an orderly way and start it again",
			Args: cobra.ExactArgs(1),
			RunE: with(func(ctx context.Context, c cluster.Cluster, args []string) error {
				return c.Restart(ctx, args[0])
			}),
		},
		{
			Use: "stop PROCESS", Short: "Stop a process in an orderly way, until start", Args: cobra.ExactArgs(1),
			RunE: with(func(ctx context.Context, c cluster.Cluster, args []string) error {
				return c.Stop(ctx, args[0])
			}),
		},
		{
			Use: "start PROCESS", Short: "Start a process that was stopped", Args: cobra.ExactArgs(1),
			RunE: with(func(ctx context.Context, c cluster.Cluster, args []string) error {
				return c.Start(ctx, args[0])
			}),
		},
		{
			Use: "tools", Short: "Build temporal, tctl and virtctl and put them beside kubectl", Args: cobra.NoArgs,
			RunE: with(func(ctx context.Context, c cluster.Cluster, _ []string) error { return c.Tools(ctx) }),
		},
		{
			Use: "packages SET", Short: "Install the Debian packages of a set: cluster, test, launcher, temporal or generate",
			Args:      cobra.ExactArgs(1),
			ValidArgs: []string{"cluster", "test", "launcher", "temporal", "generate"},
			RunE: with(func(ctx context.Context, c cluster.Cluster, args []string) error {
				set, ok := map[string][]string{"cluster": debian.Cluster(), "test": debian.Test(),
					"launcher": debian.Launcher(), "generate": debian.Generate(), "temporal": debian.Temporal()}[args[0]]
				if !ok {
					return fmt.Errorf("there is no set of packages %q: give cluster, test, launcher, temporal or generate",
						args[0])
				}
				return c.InstallPackages(ctx, set)
			}),
		},
		{
			Use: "build PART...", Short: "Build parts into the cache and print their folders",
			Args:      cobra.MinimumNArgs(1),
			ValidArgs: partNames(),
			RunE:      with(build),
		},
		{
			Use: "vulnerabilities", Short: "Look for known vulnerabilities in what virtflow's programs call",
			Args: cobra.NoArgs,
			RunE: with(func(ctx context.Context, c cluster.Cluster, _ []string) error {
				builder := parts.Builder{Repo: c.Layout.Repo, Cache: c.Layout.Cache, Out: os.Stderr}
				folder, err := builder.Ensure(ctx, parts.Govulncheck())
				if err != nil {
					return err
				}
				return vulnerabilities.Check(ctx, c.Layout.Repo, filepath.Join(folder, "govulncheck"), os.Stdout)
			}),
		},
	}
}

func up(ctx context.Context, c cluster.Cluster) error {
	if err := c.Announce("", 0); err != nil {
		return err
	}
	return c.Up(ctx)
}

func partNames() []string {
	var names []string
	for _, p := range parts.All() {
		names = append(names, p.Name)
	}
	return names
}

// build prints only folders to standard output, for use by scripts.
func build(ctx context.Context, c cluster.Cluster, names []string) error {
	builder := parts.Builder{Repo: c.Layout.Repo, Cache: c.Layout.Cache, Out: os.Stderr}
	for _, name := range names {
		part, err := parts.Named(name)
		if err != nil {
			return err
		}
		folder, err := builder.Ensure(ctx, part)
		if err != nil {
			return err
		}
		fmt.Println(folder)
	}
	return nil
}
