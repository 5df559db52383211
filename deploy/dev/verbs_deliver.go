package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/virtflow/virtflow/deploy/dev/cluster"
	"github.com/virtflow/virtflow/deploy/dev/deliver"
)

// deliverVerbs returns the commands about virtflow in the cluster.
func deliverVerbs() []*cobra.Command {
	return []*cobra.Command{
		cdi(),
		{
			Use: "kubevirt", Short: "Deploy KubeVirt's own controllers, where virtflow is not, to measure them",
			Args: cobra.NoArgs,
			RunE: with(func(ctx context.Context, c cluster.Cluster, _ []string) error {
				return deliver.Delivery{Cluster: c, Out: os.Stdout}.KubeVirt(ctx)
			}),
		},
		{
			Use: "conformance", Short: "Give every node the images that KubeVirt's functional tests use",
			Args: cobra.NoArgs,
			RunE: with(func(ctx context.Context, c cluster.Cluster, _ []string) error {
				return deliver.Delivery{Cluster: c, Out: os.Stdout}.Conformance(ctx)
			}),
		},
		withOverlay("images", "Build the images and import them into every node",
			func(ctx context.Context, d deliver.Delivery) error {
				_, err := d.Images(ctx)
				return err
			}),
		withOverlay("deploy", "Build and import the images, apply the manifests, wait for the rollouts",
			func(ctx context.Context, d deliver.Delivery) error {
				return d.Deploy(ctx)
			}),
		withOverlay("demo", "Bring up the cluster and virtflow, and run a virtual machine",
			func(ctx context.Context, d deliver.Delivery) error {
				if err := d.Cluster.Announce("images", deliver.ColdImages); err != nil {
					return err
				}
				if err := d.Cluster.Up(ctx); err != nil {
					return err
				}
				if err := d.Deploy(ctx); err != nil {
					return err
				}
				return d.Demo(ctx)
			}),
	}
}

// withOverlay returns a command that builds virtflow's images.
func withOverlay(use, short string, do func(context.Context, deliver.Delivery) error) *cobra.Command {
	var overlay string
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: with(func(ctx context.Context, c cluster.Cluster, _ []string) error {
			return do(ctx, deliver.Delivery{Cluster: c, Out: os.Stdout, Overlay: overlay})
		}),
	}
	cmd.Flags().StringVar(&overlay, "overlay", "", "an absolute path; see deploy/images --help")
	return cmd
}

func cdi() *cobra.Command {
	var off bool
	cmd := &cobra.Command{
		Use: "cdi", Short: "Have CDI fill the claims of DataVolumes", Args: cobra.NoArgs,
		RunE: with(func(ctx context.Context, c cluster.Cluster, _ []string) error {
			d := deliver.Delivery{Cluster: c, Out: os.Stdout}
			if off {
				return d.WithoutCDI(ctx)
			}
			c.Storage = true // it clones volumes by the CSI driver
			if err := up(ctx, c); err != nil {
				return err
			}
			return d.CDI(ctx)
		}),
	}
	cmd.Flags().BoolVar(&off, "off", false, "take CDI away")
	return cmd
}
