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
	Count        int           // VMs of the stage load
	Rate         float64       // VMs a second; 0: twice the capacity
	Rest         int           // VMs of the stage rest
	Capacity     int           // VMs of the stage capacity
	InHand       int           // VMs that are started at a time in the stage capacity
	Nodes        int           // simulated nodes
	Patience     time.Duration // limit for the slowest of a step
	KubeVirt     bool          `json:",omitempty"` // loads KubeVirt's own controllers, not virtflow
	VMIs         bool          // creates standalone VMIs instead of VMs
	Boot         time.Duration `json:",omitempty"` // time until a guest runs
	Failures     float64       `json:",omitempty"` // fraction of failed attempts to start a guest
	Replace      bool          // deletes all VMIs of VMs, too
	Idle         time.Duration `json:",omitempty"` // how long all VMs run without requests
	FailingMoves time.Duration `json:",omitempty"` // how long all VMs are evicted while each target pod fails
	Restarts     bool          // kills each program while all VMs run
	Counts       bool          `json:",omitempty"` // judges counts only
	Resume       string        // namespace of the VMs of an earlier run
	Keep         bool          // leaves the namespaces
	System       string        // virtflow's own namespace
	Audit        string        // the API server's audit log
	Out          string        // file for the report
}

// mostBoot is less than the control worker's limit for an attempt on a node.
const mostBoot = 25 * time.Second

func command() *cobra.Command {
	var temporal temporalclient.Options
	var o options
	cmd := process.NewCommand("scale", "load the local cluster's control plane with VMs on simulated nodes",
		func(f *pflag.FlagSet) {
			temporal.AddFlags(f)
			f.IntVar(&o.Count, "count", 1000, "VMs that are created under load")
			f.Float64Var(&o.Rate, "rate", 0,
				"VMs a second; 0: twice the machine's capacity, which is measured first")
			f.IntVar(&o.Rest, "rest", 5, "VMs that are created one at a time, to measure the cost of each at rest")
			f.IntVar(&o.Capacity, "capacity", 100, "VMs that are created to measure the machine's capacity")
			f.IntVar(&o.InHand, "in-hand", 16, "VMs that are started at a time for that")
			f.IntVar(&o.Nodes, "nodes", 20, "number of simulated nodes")
			f.DurationVar(&o.Patience, "patience", 15*time.Minute,
				"limit for a step, until the last VM has done it")
			f.BoolVar(&o.KubeVirt, "kubevirt", false,
				"load KubeVirt's own controllers (make kubevirt) instead of virtflow: virt-handler is simulated, too")
			f.BoolVar(&o.VMIs, "vmis", false, "create standalone VMIs instead of VMs")
			f.DurationVar(&o.Boot, "boot", 0, "time until a guest runs")
			f.Float64Var(&o.Failures, "failures", 0,
				"fraction of attempts to start a guest that fail, such as 0.1; each is tried again")
			f.BoolVar(&o.Replace, "replace", true, "delete all VMIs, and wait until all VMs run again")
			f.DurationVar(&o.Idle, "idle", 0,
				"let all VMs run this long without requests, and measure the cost: only 5m or more is sure to contain "+
					"crdwatch's resync")
			f.DurationVar(&o.FailingMoves, "failing-moves", 0,
				"evict all VMs for so long, as kubectl drain does, while each target pod fails at once, and count the pods")
			f.BoolVar(&o.Restarts, "restarts", false,
				"kill the programs of the control plane in turn while all VMs run, and measure the cost")
			f.BoolVar(&o.Counts, "counts-only", false,
				"judge counts only, without the rate and the renewal of crdwatch's lease, "+
					"which also depend on other load of the machine")
			f.StringVar(&o.Resume, "resume", "",
				"continue with the VMs in this namespace, left by a run with --keep or an interrupted one: none "+
					"are created or replaced")
			f.BoolVar(&o.Keep, "keep", false, "leave the VMs and the simulated nodes at the end, to continue with "+
				"--resume within five minutes: then Kubernetes takes the pods of such nodes for lost")
			f.StringVar(&o.System, "system", "virtflow", "namespace that virtflow runs in")
			f.StringVar(&o.Out, "out", "", "file for the report, as JSON (make scale-plots draws it)")
			f.StringVar(&o.Audit, "audit-log", "", "the API server's audit log")
		}, func(ctx context.Context, p *process.Process) error {
			if o.Count < 1 || o.Rest < 1 || o.Capacity < 1 || o.InHand < 1 || o.Nodes < 1 || o.Rate < 0 || o.Idle < 0 ||
				o.FailingMoves < 0 {
				return errors.New("--count, --rest, --capacity, --in-hand and --nodes are at least 1, and " +
					"--rate, --idle and --failing-moves are not negative")
			}
			if o.Boot < 0 || o.Boot > mostBoot || o.Failures < 0 || o.Failures > 0.5 {
				return fmt.Errorf("--boot is between 0 and %s, and --failures between 0 and 0.5", mostBoot)
			}
			if o.KubeVirt && (o.Restarts || o.Boot > 0 || o.Failures > 0) {
				return errors.New("--restarts, --boot and --failures do not go with --kubevirt")
			}
			if o.FailingMoves > 0 && o.Resume != "" {
				return errors.New("--failing-moves does not go with --resume: those VMs may have no eviction strategy")
			}
			if _, err := os.Stat(o.Audit); err != nil {
				return fmt.Errorf("--audit-log: requests are counted from it: %w", err)
			}
			config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
			if err != nil {
				return fmt.Errorf("finding the cluster (run this with the environment of make env): %w", err)
			}
			config.QPS, config.UserAgent = -1, "scale" // --rate is the limit
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
				defer file.Close()
				out = file
			}
			var moving *targets
			if o.FailingMoves > 0 {
				moving = &targets{}
			}
			r := &run{options: o, host: config.Host, kubernetes: clients, kubevirt: kv, log: p.Log, out: out,
				targets: moving, report: report{Began: time.Now(), Options: o}}
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
