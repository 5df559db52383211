package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	Count    int           // VMs of the stage load
	Rate     float64       // how many of them a second; 0: twice the capacity
	Rest     int           // VMs of the stage rest
	Capacity int           // VMs of the stage capacity
	InHand   int           // how many of those are started at a time
	Nodes    int           // simulated nodes
	Patience time.Duration // how long the slowest of a step may take
	KubeVirt bool          `json:",omitempty"` // loads KubeVirt's own controllers, not virtflow
	VMIs     bool          // makes VMIs by themselves instead of VMs
	Boot     time.Duration `json:",omitempty"` // how long a guest takes until it runs
	Failures float64       `json:",omitempty"` // the part of all attempts to start a guest that fail
	Replace  bool          // deletes all VMIs of VMs, too
	Idle     time.Duration `json:",omitempty"` // how long all VMs run with nothing asked for
	Restarts bool          // kills each program while all VMs run
	Counts   bool          `json:",omitempty"` // judges counts alone
	Resume   string        // namespace of the VMs of an earlier run
	Keep     bool          // leaves the namespaces
	System   string        // virtflow's own namespace
	Audit    string        // the API server's audit log
	Out      string        // file for what was measured
}

// mostBoot is less than the control worker gives a node for an attempt.
const mostBoot = 25 * time.Second

func command() *cobra.Command {
	var temporal temporalclient.Options
	var o options
	cmd := process.NewCommand("scale", "load the local cluster's control plane with VMs on simulated nodes",
		func(f *pflag.FlagSet) {
			temporal.AddFlags(f)
			f.IntVar(&o.Count, "count", 1000, "how many VMs are made under load")
			f.Float64Var(&o.Rate, "rate", 0,
				"how many of them a second; 0: twice as many as the machine can do, which is measured first")
			f.IntVar(&o.Rest, "rest", 5, "how many VMs are made one at a time, to see what each costs at rest")
			f.IntVar(&o.Capacity, "capacity", 100, "how many VMs are made to see how many a second the machine can do")
			f.IntVar(&o.InHand, "in-hand", 16, "how many of those are started at a time")
			f.IntVar(&o.Nodes, "nodes", 20, "how many nodes are simulated")
			f.DurationVar(&o.Patience, "patience", 15*time.Minute,
				"how long a step may take, until the last VM has done it")
			f.BoolVar(&o.KubeVirt, "kubevirt", false,
				"load KubeVirt's own controllers (make kubevirt) instead of virtflow: virt-handler is simulated, too")
			f.BoolVar(&o.VMIs, "vmis", false, "make VMIs by themselves instead of VMs")
			f.DurationVar(&o.Boot, "boot", 0, "how long a guest takes until it runs")
			f.Float64Var(&o.Failures, "failures", 0,
				"the part of all attempts to start a guest that fail, as 0.1: each is tried again")
			f.BoolVar(&o.Replace, "replace", true, "delete all VMIs, and wait until all VMs run again")
			f.DurationVar(&o.Idle, "idle", 0,
				"let all VMs run for so long with nothing asked for, and see what it costs: only 5m or more is sure to have "+
					"crdwatch's resync in it")
			f.BoolVar(&o.Restarts, "restarts", false,
				"kill the programs of the control plane in turn while all VMs run, and see what it costs")
			f.BoolVar(&o.Counts, "counts-only", false,
				"judge counts alone, not how many VMs a second get done and how long crdwatch's lease is not renewed, "+
					"which also depend on what else the machine does")
			f.StringVar(&o.Resume, "resume", "",
				"go on with the VMs in this namespace, which a run with --keep has left or one that was cut off: none "+
					"are made, nor replaced")
			f.BoolVar(&o.Keep, "keep", false, "leave the VMs and the simulated nodes there at the end, to go on with "+
				"--resume within five minutes: then Kubernetes takes the pods of such nodes for lost")
			f.StringVar(&o.System, "system", "virtflow", "namespace that virtflow runs in")
			f.StringVar(&o.Out, "out", "", "a file for what was measured, as JSON (make scale-plots draws it)")
			f.StringVar(&o.Audit, "audit-log", "", "the API server's audit log")
		}, func(ctx context.Context, p *process.Process) error {
			if o.Count < 1 || o.Rest < 1 || o.Capacity < 1 || o.InHand < 1 || o.Nodes < 1 || o.Rate < 0 || o.Idle < 0 {
				return errors.New("--count, --rest, --capacity, --in-hand and --nodes are at least 1, and " +
					"--rate and --idle are not negative")
			}
			if o.Boot < 0 || o.Boot > mostBoot || o.Failures < 0 || o.Failures > 0.5 {
				return fmt.Errorf("--boot is between 0 and %s, and --failures between 0 and 0.5", mostBoot)
			}
			if o.KubeVirt && (o.Restarts || o.Boot > 0 || o.Failures > 0) {
				return errors.New("--restarts, --boot and --failures do not go with --kubevirt")
			}
			if _, err := os.Stat(o.Audit); err != nil {
				return fmt.Errorf("--audit-log: requests are counted from it: %w", err)
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
			var out io.Writer
			if o.Out != "" {
				file, err := os.Create(o.Out)
				if err != nil {
					return fmt.Errorf("--out: %w", err)
				}
				defer file.Close() //nolint:errcheck // what is written to it is not buffered
				out = file
			}
			r := &run{options: o, host: config.Host, kubernetes: clients, kubevirt: kv, log: p.Log, out: out,
				report: report{Began: time.Now(), Options: o}}
			if o.KubeVirt {
				if r.loaded, err = newKubeVirt(ctx, r, config); err != nil {
					return err
				}
				return r.all(ctx)
			}
			engine, err := temporal.Dial(ctx, p.Log, nil, "scale")
			if err != nil {
				return err
			}
			defer engine.Close()
			r.temporal, r.temporalNamespace, r.loaded = engine, temporal.Namespace, virtflow{r}
			return r.all(ctx)
		})
	_ = cmd.Flags().Set("metrics-address", "")
	_ = cmd.Flags().Set("log-level", "error")
	return cmd
}
