// Command crdwatch sends virtflow's workflows the changes of Kubernetes objects.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/virtflow/virtflow/crdwatch"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

const name = "virtflow-crdwatch"

func main() { process.Main(command) }

func command() *cobra.Command {
	var (
		temporal   temporalclient.Options
		kubeconfig string
		namespace  string
		identity   string
		workers    int
		image      string
	)
	flags := func(f *pflag.FlagSet) {
		temporal.AddFlags(f)
		f.StringVar(&kubeconfig, "kubeconfig", "",
			"kubeconfig file; empty: the service account of the pod this runs in")
		f.StringVar(&namespace, "namespace", "",
			"namespace of virtflow itself; empty: the one this pod runs in, else virtflow")
		f.StringVar(&identity, "identity", "", "name of this process in the leader's lease; empty: the host name")
		f.StringVar(&image, "launcher-image", "", "image of the launcher that each VM's pod runs, as the control "+
			"workers' flag says; empty: outdated launchers are not detected")
		f.IntVar(&workers, "workers", 16, "how many workflows are sent something at once")
	}
	run := func(ctx context.Context, p *process.Process) error {
		if identity == "" {
			host, err := os.Hostname()
			if err != nil {
				return fmt.Errorf("finding a name for this process (or give --identity): %w", err)
			}
			identity = host
		}
		config, err := kube.LoadConfig(kubeconfig, name, p.Registry)
		if err != nil {
			return err
		}
		clients, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("making a Kubernetes client: %w", err)
		}
		leases, err := coordination.NewForConfig(kube.LeaseConfig(config, crdwatch.RenewDeadline))
		if err != nil {
			return fmt.Errorf("making a client for the leader's lease: %w", err)
		}
		kubevirt, err := kube.New(config)
		if err != nil {
			return err
		}
		outages := temporalclient.NewOutages()
		temporal.Interceptors = append(temporal.Interceptors, outages.Intercept)
		c, err := temporal.Dial(ctx, p.Log, p.Registry, name+"@"+identity)
		if err != nil {
			return err
		}
		defer c.Close()
		w, err := crdwatch.New(crdwatch.Options{
			Kubernetes: clients, KubeVirt: kubevirt, Leases: leases, Temporal: c, Outages: outages,
			Namespace: kube.Namespace(namespace, "virtflow"), Identity: identity, Workers: workers,
			LauncherImage: image,
			Registry:      p.Registry, Log: p.Log, SetLevel: p.Level.Set,
		})
		if err != nil {
			return err
		}
		p.Health.AddReady("informers", w.Ready)
		return w.Run(ctx)
	}
	return process.NewCommand("crdwatch", "Send virtflow's workflows what happens in Kubernetes", flags, run)
}
