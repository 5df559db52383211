package cluster

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strings"
	"text/template"
	"time"

	"github.com/virtflow/virtflow/deploy/dev/controlplane"
	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/readiness"
	"github.com/virtflow/virtflow/deploy/dev/supervise"
)

//go:embed files/coredns.yaml
var corednsManifest string

// usableTime is how long the cluster may take from the start of its processes.
const usableTime = 3 * time.Minute

// waitUntilUsable waits for each thing on which a user relies, and prints when it is available.
func (c Cluster) waitUntilUsable(ctx context.Context, d controlplane.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, usableTime)
	defer cancel()
	start := time.Now()
	type step struct {
		what string
		try  func(context.Context) error
	}
	steps := []step{
		{"kube-apiserver is ready", func(ctx context.Context) error { return readiness.APIServer(ctx, c.Layout) }},
		{"cluster DNS is set up", func(ctx context.Context) error { return c.applyDNS(ctx, d.CoreDNSImage) }},
		{"the nodes are Ready", c.nodesReady},
		{"cluster DNS answers", resolveKubernetes},
		{"Temporal is healthy", d.TemporalReady},
	}
	if d.Storage != "" {
		steps = append(steps, step{"storage is set up", c.applyStorage},
			step{"PersistentVolumeClaims get volumes", c.driversRegistered})
	}
	for _, step := range steps {
		try := func(ctx context.Context) error {
			err := step.try(ctx)
			if err == nil {
				return nil
			}
			if _, gone := c.supervisor().Report(ctx); gone != nil {
				cancel() // nothing would become any better
				return gone
			}
			return err
		}
		if err := Until(ctx, 200*time.Millisecond, try); err != nil {
			return fmt.Errorf("not true in time: %s: %w\n%s", step.what, err, c.troubles())
		}
		c.say("  %5.1f s  %s", time.Since(start).Seconds(), step.what)
	}
	return nil
}

// Until tries until the call succeeds; when ctx is done it returns the last error.
func Until(ctx context.Context, every time.Duration, try func(context.Context) error) error {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(every):
		}
	}
}

func (c Cluster) applyDNS(ctx context.Context, image string) error {
	t, err := template.New("coredns").Parse(corednsManifest)
	if err != nil {
		return fmt.Errorf("read the manifest of the cluster's DNS: %w", err)
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]string{"Image": image, "ClusterDomain": layout.ClusterDomain,
		"ServiceDNS": layout.ServiceDNS})
	if err != nil {
		return fmt.Errorf("fill in the manifest of the cluster's DNS: %w", err)
	}
	return c.Apply(ctx, out.Bytes())
}

type nodeList struct {
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Status struct {
			Conditions []struct {
				Type              string    `json:"type"`
				Status            string    `json:"status"`
				Reason            string    `json:"reason"`
				LastHeartbeatTime time.Time `json:"lastHeartbeatTime"`
			} `json:"conditions"`
		} `json:"status"`
	} `json:"items"`
}

// nodesReady returns an error until every node has reported Ready since its last start: the condition from before a
// restart is still stored, and means nothing.
func (c Cluster) nodesReady(ctx context.Context) error {
	report, err := c.supervisor().Report(ctx)
	if err != nil {
		return err
	}
	since := map[string]time.Time{}
	for _, p := range report.Processes {
		if p.State == supervise.Running {
			since[p.Name] = p.Since.Truncate(time.Second) // as Kubernetes stores times
		}
	}
	var nodes nodeList
	if err := c.Get(ctx, &nodes, "nodes"); err != nil {
		return err
	}
	ready := map[string]bool{}
	for _, n := range nodes.Items {
		for _, condition := range n.Status.Conditions {
			started, running := since[n.Metadata.Name]
			if condition.Type == "Ready" && condition.Status == "True" && running &&
				!condition.LastHeartbeatTime.Before(started) {
				ready[n.Metadata.Name] = true
			}
		}
	}
	var missing []string
	for _, n := range layout.Nodes() {
		if !ready[n.Name] {
			missing = append(missing, n.Name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("not Ready: %s", strings.Join(missing, ", "))
	}
	return nil
}

// resolveKubernetes queries the cluster's DNS from the host, through its ClusterIP.
func resolveKubernetes(ctx context.Context) error {
	resolver := &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: time.Second}).
				DialContext(ctx, network, net.JoinHostPort(layout.ServiceDNS, "53"))
		},
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	addresses, err := resolver.LookupHost(ctx, "kubernetes.default.svc."+layout.ClusterDomain+".")
	if err != nil {
		return fmt.Errorf("ask the cluster's DNS: %w", err)
	}
	if len(addresses) != 1 || addresses[0] != layout.ServiceAPI {
		return fmt.Errorf("the cluster's DNS resolves the apiserver to %v", addresses)
	}
	return nil
}
