package server

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/virtflow/virtflow/api/subresources"
	"github.com/virtflow/virtflow/internal/certificates"
	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/internal/process"
)

// apiServices returns the names of the APIServices that send requests to this process.
func apiServices() []string {
	return []string{"v1." + subresources.Group, "v1alpha3." + subresources.Group}
}

// temporalClient returns a client that connects on first use: webhooks are answered without Temporal.
func (o *Options) temporalClient(p *process.Process) (client.Client, error) {
	options, err := o.Temporal.ClientOptions(p.Log, p.Registry, userAgent)
	if err != nil {
		return nil, err
	}
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fmt.Errorf("setting up the client of Temporal: %w", err)
	}
	return temporal, nil
}

// aggregated returns the API subresources.kubevirt.io.
func (o *Options) aggregated(
	mgr ctrl.Manager, temporal client.Client, cluster func(context.Context) (defaults.Cluster, error),
	expiry certificates.Expiry, p *process.Process,
) (*subresources.Service, error) {
	toGuests, err := o.streams(mgr, expiry, p)
	if err != nil {
		return nil, err
	}
	service, err := subresources.New(subresources.Options{
		Reader:     mgr.GetAPIReader(),
		Client:     mgr.GetClient(),
		FrontProxy: mgr.GetClient(),
		Cluster:    cluster,
		Entities:   subresources.Temporal{Client: temporal},
		Streams:    toGuests,
		Version:    process.Version,
		Log:        p.Log,
		Refused:    subresourceRefusals(p.Registry),
		Observe:    subresourceObserver(p.Registry),
	})
	if err != nil {
		return nil, err
	}
	return service, nil
}

// subresourceRefusals counts requests that were rejected before their handler.
func subresourceRefusals(r prometheus.Registerer) func(int) {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "virtflow_subresource_refused_total",
		Help: "Rejected requests to subresources.kubevirt.io, by code: the caller is not the front proxy, has no " +
			"permission, or the path does not exist.",
	}, []string{"code"})
	r.MustRegister(refused)
	return func(code int) { refused.WithLabelValues(strconv.Itoa(code)).Inc() }
}

// subresourceObserver counts and times the answers of each subresource, except streams.
func subresourceObserver(r prometheus.Registerer) func(string, int, time.Duration) {
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "virtflow_subresource_duration_seconds",
		Help:    "Time to answer one request to subresources.kubevirt.io, by subresource and code.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
	}, []string{"subresource", "code"})
	r.MustRegister(took)
	return func(route string, code int, d time.Duration) {
		took.WithLabelValues(route, strconv.Itoa(code)).Observe(d.Seconds())
	}
}
