package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

func main() { process.Main(command) }

// options of a run.
type options struct {
	Kind     string        // what is made: vm or vmi
	Count    int           // how many
	Rate     float64       // how many a second; 0: all at once
	Nodes    int           // simulated nodes
	Patience time.Duration // how long the slowest may take
	Keep     bool          // leaves the machines
}

func command() *cobra.Command {
	var temporal temporalclient.Options
	var o options
	cmd := process.NewCommand("scale", "load the local cluster's control plane with machines on simulated nodes", func(f *pflag.FlagSet) {
		temporal.AddFlags(f)
		f.StringVar(&o.Kind, "kind", "vm", "what is made: vm or vmi")
		f.IntVar(&o.Count, "count", 200, "how many machines are made")
		f.Float64Var(&o.Rate, "rate", 2, "how many of them a second; 0: all at once")
		f.IntVar(&o.Nodes, "nodes", 20, "how many nodes are simulated")
		f.DurationVar(&o.Patience, "patience", 20*time.Minute, "how long the slowest machine may take to run, and all to be gone")
		f.BoolVar(&o.Keep, "keep", false, "leave the machines there at the end (the simulated nodes go)")
	}, func(ctx context.Context, p *process.Process) error {
		if o.Kind != "vm" && o.Kind != "vmi" {
			return fmt.Errorf("--kind is %q: give vm or vmi", o.Kind)
		}
		if o.Count < 1 || o.Nodes < 1 || o.Rate < 0 {
			return errors.New("--count and --nodes are at least 1, and --rate is not negative")
		}
		config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
		if err != nil {
			return fmt.Errorf("finding the cluster (run this with the environment of make env): %w", err)
		}
		config.QPS, config.UserAgent = -1, "scale" // what limits is --rate
		clients, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		kv, err := kube.New(config)
		if err != nil {
			return err
		}
		engine, err := temporal.Dial(ctx, p.Log, nil, "scale")
		if err != nil {
			return err
		}
		defer engine.Close()
		r := &run{options: o, kubernetes: clients, kubevirt: kv, temporal: engine, log: p.Log}
		return r.all(ctx)
	})
	_ = cmd.Flags().Set("metrics-address", "")
	_ = cmd.Flags().Set("log-level", "warn")
	return cmd
}
