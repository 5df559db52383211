package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/virtflow/virtflow/deploy/dev/cluster"
	"github.com/virtflow/virtflow/deploy/dev/deliver"
)

// deliverVerbs are about virtflow in the cluster.
func deliverVerbs() []*cobra.Command {
	verb := func(use, short string, do func(context.Context, deliver.Delivery) error) *cobra.Command {
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
	var off bool
	cdi := verb("cdi", "Have CDI fill the claims of DataVolumes", func(ctx context.Context, d deliver.Delivery) error {
		if off {
			return d.WithoutCDI(ctx)
		}
		return d.CDI(ctx)
	})
	cdi.Flags().BoolVar(&off, "off", false, "take CDI away")
	return []*cobra.Command{
		cdi,
		verb("images", "Build the images and import them into every node",
			func(ctx context.Context, d deliver.Delivery) error {
				_, err := d.Images(ctx)
				return err
			}),
		verb("deploy", "Build and import the images, apply the manifests, wait for the rollouts",
			func(ctx context.Context, d deliver.Delivery) error {
				return d.Deploy(ctx)
			}),
		verb("demo", "Bring up the cluster and virtflow, and run a virtual machine",
			func(ctx context.Context, d deliver.Delivery) error {
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
