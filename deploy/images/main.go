package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/virtflow/virtflow/deploy/images/archive"
	"github.com/virtflow/virtflow/deploy/images/cache"
	"github.com/virtflow/virtflow/deploy/images/recipes"
	"github.com/virtflow/virtflow/deploy/images/sandbox"
)

func main() {
	// A sandbox starts this program again as its first process.
	if sandbox.IsInside() {
		sandbox.Inside()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "images",
		Short:         "Builds virtflow's container images without a container engine and without a registry",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	var only []string
	var overlay string
	root.PersistentFlags().StringSliceVar(&only, "only", nil, "names of the images, separated by commas (default: all)")
	root.PersistentFlags().StringVar(&overlay, "overlay", "",
		"a file that replaces source files, as for `go build -overlay`")
	root.AddCommand(
		&cobra.Command{
			Use:   "build",
			Short: "Builds what is not in the cache and prints a line NAME TAG PATH DIGEST for each image",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				chosen, err := recipes.Choose(only)
				if err != nil {
					return err
				}
				return build(cmd.Context(), chosen, overlay)
			},
		},
		&cobra.Command{
			Use:   "cdi FOLDER",
			Short: "Builds the images of CDI, whose programs are in a folder, and prints lines like build",
			Args:  cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				chosen, err := recipes.CDI(args[0])
				if err != nil {
					return err
				}
				return build(cmd.Context(), chosen, "")
			},
		},
		&cobra.Command{
			Use:   "kubevirt FOLDER",
			Short: "Builds the images of KubeVirt, whose programs are in a folder, and prints lines like build",
			Args:  cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return build(cmd.Context(), recipes.KubeVirt(args[0]), "")
			},
		},
		&cobra.Command{
			Use: "conformance",
			Short: "Builds the images that KubeVirt's functional tests use, all with the same tag, and prints lines " +
				"like build",
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return build(cmd.Context(), recipes.Conformance(), "")
			},
		},
		&cobra.Command{
			Use: "verify",
			Short: "Boots the test guest, with virtio and with sata disks, and the guests of KubeVirt's functional " +
				"tests under libvirt in the launcher's root (needs root)",
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return verify(cmd.Context())
			},
		},
		&cobra.Command{
			Use:   "cloud-image",
			Short: "Builds a cloud image of Debian for tests, a raw disk, and prints its path (needs root)",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				builder, err := newBuilder()
				if err != nil {
					return err
				}
				disk, err := builder.CloudImage(cmd.Context())
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), disk)
				}
				return err
			},
		},
		&cobra.Command{
			Use:   "list",
			Short: "Prints the names of all images",
			Args:  cobra.NoArgs,
			Run: func(cmd *cobra.Command, _ []string) {
				for _, r := range recipes.All() {
					fmt.Fprintln(cmd.OutOrStdout(), r.Name)
				}
			},
		},
	)
	return root
}

// build builds each image even when another fails, and fails in the end if any did.
func build(ctx context.Context, chosen []recipes.Recipe, overlay string) error {
	builder, err := newBuilder()
	if err != nil {
		return err
	}
	builder.Overlay = overlay
	var failed []string
	for _, recipe := range chosen {
		started := time.Now()
		image, err := recipe.Build(ctx, builder)
		if ctx.Err() != nil {
			return fmt.Errorf("stopped while building %s; the next build continues from what is finished", recipe.Name)
		}
		if err != nil {
			builder.Log.Error().Str("image", recipe.Name).Err(err).Msg("failed to build image")
			failed = append(failed, recipe.Name)
			continue
		}
		builder.Log.Info().Str("image", recipe.Name).Str("tag", image.Tag).Bool("cached", image.Cached).
			Str("took", time.Since(started).Round(10*time.Millisecond).String()).Msg("built image")
		digest, err := archive.Digest(image.Path)
		if err != nil {
			return err
		}
		fmt.Println(recipe.Name, image.Tag, image.Path, digest)
	}
	if len(failed) > 0 {
		return fmt.Errorf("not built: %s (the reasons stand above)", strings.Join(failed, ", "))
	}
	return nil
}

func newBuilder() (*recipes.Builder, error) {
	dir, err := cache.Default()
	if err != nil {
		return nil, err
	}
	log := zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: time.TimeOnly,
		NoColor: os.Getenv("NO_COLOR") != "" || !isatty.IsTerminal(os.Stderr.Fd())}).
		With().Timestamp().Logger()
	return recipes.NewBuilder(dir, log)
}
