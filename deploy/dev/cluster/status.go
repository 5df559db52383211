package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/virtflow/virtflow/deploy/dev/controlplane"
	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/node"
	"github.com/virtflow/virtflow/deploy/dev/readiness"
	"github.com/virtflow/virtflow/deploy/dev/supervise"
)

// Status prints every process with its state and its log file, and the things on which a user relies. It returns an
// error when one of them is not well.
func (c Cluster) Status(ctx context.Context) error {
	processes, err := c.processes(ctx)
	if err != nil {
		return fmt.Errorf("the cluster is down (make up starts it): %w", err)
	}
	if !c.hasStorage() {
		processes = slices.DeleteFunc(processes, isDriver) // it waits for make storage
	}
	w := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROCESS\tSTATE\tFOR\tRESTARTS\tLOG")
	for _, p := range processes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", p.Name, p.State, time.Since(p.Since).Round(time.Second), p.Restarts,
			p.Log)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the processes: %w", err)
	}
	d, err := controlplane.Load(c.Layout)
	if err != nil {
		return err
	}
	var bad []string
	for _, p := range processes {
		if p.State != supervise.Running {
			bad = append(bad, fmt.Sprintf("%s: %s (%s)", p.Name, p.State, p.LastEnd))
		}
	}
	for _, check := range []struct {
		what string
		try  func(context.Context) error
	}{
		{"kube-apiserver", func(ctx context.Context) error { return readiness.APIServer(ctx, c.Layout) }},
		{"nodes", c.nodesReady},
		{"cluster DNS", resolveKubernetes},
		{"Temporal", d.TemporalReady},
	} {
		if err := check.try(ctx); err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", check.what, err))
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("the cluster is not well: %s", strings.Join(bad, "; "))
	}
	c.say("The cluster is up: Kubernetes at %s, Temporal at %s, its web interface at http://%s.", layout.APIServer,
		layout.Temporal, layout.UI)
	return nil
}

// isDriver reports whether a process is the CSI driver of a node.
func isDriver(p supervise.Status) bool { return strings.HasSuffix(p.Name, "-"+node.CSIDriver) }

// processes returns the processes on the host and those in the nodes, which are named NODE-PROCESS.
func (c Cluster) processes(ctx context.Context) ([]supervise.Status, error) {
	report, err := c.supervisor().Report(ctx)
	if err != nil {
		return nil, err
	}
	all := report.Processes
	for _, n := range layout.Nodes() {
		inside, err := supervise.NewClient(c.Layout.Control(n.Name)).Report(ctx)
		if err != nil {
			continue // the node as a whole is shown already
		}
		for _, p := range inside.Processes {
			p.Name = n.Name + "-" + p.Name
			all = append(all, p)
		}
	}
	return all, nil
}

// Kill kills a process as a crash would; its supervisor starts it again.
func (c Cluster) Kill(ctx context.Context, name string) error {
	return c.order(ctx, name, (*supervise.Client).Kill)
}

// Restart stops a process in an orderly way and starts it again.
func (c Cluster) Restart(ctx context.Context, name string) error {
	return c.order(ctx, name, (*supervise.Client).Restart)
}

// Stop ends a process in an orderly way and keeps it from being started again until Start.
func (c Cluster) Stop(ctx context.Context, name string) error {
	return c.order(ctx, name, (*supervise.Client).Stop)
}

// Start starts a process that was stopped.
func (c Cluster) Start(ctx context.Context, name string) error {
	return c.order(ctx, name, (*supervise.Client).Start)
}

func (c Cluster) order(
	ctx context.Context, name string, give func(*supervise.Client, context.Context, string) error,
) error {
	client, process := c.supervisor(), name
	for _, n := range layout.Nodes() {
		if inside, ok := strings.CutPrefix(name, n.Name+"-"); ok {
			client, process = supervise.NewClient(c.Layout.Control(n.Name)), inside
		}
	}
	if err := give(client, ctx, process); err != nil {
		names := []string{}
		if all, listErr := c.processes(ctx); listErr == nil {
			for _, p := range all {
				names = append(names, p.Name)
			}
		}
		return fmt.Errorf("%s: %w (there are: %s)", name, err, strings.Join(names, ", "))
	}
	return nil
}

// troubles lists the processes that do not run as they should, for an error message.
func (c Cluster) troubles() string {
	// The caller's context may have ended; this one must not.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	processes, err := c.processes(ctx)
	if err != nil {
		return fmt.Sprintf("The supervisor does not answer (%v); its log: %s", err, c.Layout.Log("supervisor"))
	}
	var lines []string
	for _, p := range processes {
		if p.State != supervise.Running || p.Restarts > 0 {
			lines = append(lines, fmt.Sprintf("  %s: %s, %d restarts; %s; log: %s", p.Name, p.State, p.Restarts,
				p.LastEnd, p.Log))
		}
	}
	if len(lines) == 0 {
		return "Every process is running; logs: " + c.Layout.Path("log")
	}
	return strings.Join(lines, "\n")
}
