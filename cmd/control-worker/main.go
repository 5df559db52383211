// Command control-worker runs virtflow's workflows and the activities that talk to Kubernetes.
package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/virtflow/virtflow/activities/cluster"
	"github.com/virtflow/virtflow/activities/cluster/events"
	"github.com/virtflow/virtflow/api/support"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/workers/control"
)

const name = "control-worker"

func main() {
	process.Main(func() *cobra.Command {
		var o options
		return process.NewCommand(name, "runs virtflow's workflows and the activities that talk to Kubernetes",
			o.addFlags, o.run)
	})
}

type options struct {
	control       control.Options
	kubeconfig    string
	namespace     string
	launcherImage string
	pullPolicy    string
}

func (o *options) addFlags(f *pflag.FlagSet) {
	o.control.Temporal.AddFlags(f)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's own service account")
	f.StringVar(&o.namespace, "namespace", "",
		"namespace that virtflow runs in, with the KubeVirt object; empty: the pod's own, else virtflow")
	f.StringVar(&o.launcherImage, "launcher-image", "", "image of the launcher that each VM's pod runs")
	f.StringVar(&o.pullPolicy, "launcher-pull-policy", string(corev1.PullIfNotPresent),
		"pull policy of the launcher image where the KubeVirt object names none")
	f.IntVar(&o.control.MaxConcurrent, "max-concurrent", control.DefaultMaxConcurrent(runtime.GOMAXPROCS(0)),
		"at most that many workflow tasks and local activities of each of the two task queues, and other activities, "+
			"each, are in hand at a time; what is more waits in Temporal")
	f.IntVar(&o.control.CachedWorkflows, "cached-workflows", 1000,
		"workflows kept in memory between their tasks, some 90 KB each under load; one that is not is replayed at its "+
			"next task. 0: each task replays")
}

func (o *options) run(ctx context.Context, p *process.Process) error {
	config, err := kube.LoadConfig(o.kubeconfig, "virtflow-"+name, p.Registry)
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a Kubernetes client: %w", err)
	}
	kv, err := kube.New(config)
	if err != nil {
		return err
	}
	queue := events.NewQueue(clients.CoreV1(), p.Log, p.Registry)
	defer queue.Start()() // its stop comes last: what the worker finishes is recorded as well
	watcher := settings.NewWatcher(kv, kube.Namespace(o.namespace, "virtflow"))
	changed := make(chan struct{}, 1)
	if err := watcher.Follow(func(s settings.Settings) {
		p.Level.Set(s.LogLevels().Controller)
		select {
		case changed <- struct{}{}:
		default: // the one before has not been received yet
		}
	}); err != nil {
		return err
	}
	go watcher.Run(ctx)
	p.Health.AddReady("settings", watcher.Ready)
	if err := watcher.WaitForSync(ctx); err != nil {
		return err
	}
	policies, err := settings.NewPolicies(config)
	if err != nil {
		return err
	}
	go policies.Run(ctx)
	activities, err := cluster.New(cluster.Options{
		Kubernetes: clients, KubeVirt: kv, Settings: watcher.Current, ReadSettings: watcher.Read,
		Object: watcher.Object, Policies: policies.All, Record: queue.Record,
		LauncherImage: o.launcherImage, PullPolicy: corev1.PullPolicy(o.pullPolicy), Log: p.Log,
	})
	if err != nil {
		return fmt.Errorf("--launcher-image (%s%s): %w", process.EnvPrefix, "LAUNCHER_IMAGE", err)
	}
	return control.Run(ctx, p, o.control, activities, control.Kubernetes{
		KubeVirt: kv, Current: watcher.Object, Changed: changed, WithoutEffect: support.WithoutEffect,
	})
}
