package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/zerologr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/virtflow/virtflow/api/admission"
	"github.com/virtflow/virtflow/api/subresources"
	"github.com/virtflow/virtflow/internal/certificates"
	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/internal/settings"
)

const (
	userAgent       = "virtflow-api-server"
	shutdownTimeout = 10 * time.Second
)

// Run serves webhooks until ctx ends.
func (o *Options) Run(ctx context.Context, p *process.Process) error {
	if err := o.check(); err != nil {
		return err
	}
	config, err := kube.LoadConfig(o.Kubeconfig, userAgent, p.Registry)
	if err != nil {
		return err
	}
	// The libraries' own progress messages are left out.
	libraries := p.Log.Level(max(p.Log.GetLevel(), zerolog.WarnLevel))
	logger := zerologr.New(&libraries)
	klog.SetLogger(logger)
	ctrl.SetLogger(logger)

	scheme, err := newScheme()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme,
		Logger:                  logger,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: new(shutdownTimeout),
		Cache:                   o.cacheOptions(),
	})
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	expiry := certificates.NewExpiry(p.Registry)
	rotator := certificates.NewRotator(mgr.GetClient(), certificates.Options{
		Secret:             types.NamespacedName{Namespace: o.Namespace, Name: o.Secret},
		Service:            o.Service,
		MutatingWebhooks:   o.Webhooks,
		ValidatingWebhooks: o.Webhooks,
		APIServices:        apiServices(),
		Expiry:             expiry,
	}, p.Log)
	if err := rotator.SetUp(mgr); err != nil {
		return err
	}
	temporal, err := o.temporalClient(p)
	if err != nil {
		return err
	}
	sent := newReports(temporal, p.Log, p.Registry)
	defer sent.close(reportDrain) // after the last review has been answered
	cluster := o.clusterReader(mgr.GetClient())
	aggregated, err := o.aggregated(mgr, temporal, cluster, expiry, p)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	https := newServer("", o.Port, Limits{}, mux, rotator.Certificate, aggregated.FromFrontProxy, p.Log)
	if err := o.trust(mgr, https.trusted); err != nil {
		return err
	}
	register(mux, admission.Handlers(admission.Options{
		Cluster: cluster, OwnUsers: o.ownUsers(), Controllers: o.ownUsers(), Observe: observer(p.Registry),
		Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Reports: sent,
	}), https.trusted.has, https.refused.WithLabelValues("review").Inc, aggregated.Authenticate)
	mux.Handle("/", aggregated) // everything except webhooks
	p.Registry.MustRegister(https.refused)
	if err := followLevel(mgr, p.Level, p.Log); err != nil {
		return err
	}
	if err := mgr.Add(https); err != nil {
		return fmt.Errorf("setting up the HTTPS server: %w", err)
	}
	p.Health.AddReady("webhook server", func(ctx context.Context) error {
		if err := rotator.Ready(ctx); err != nil {
			return err
		}
		return https.Ready(ctx)
	})
	p.Health.AddReady("configuration", func(ctx context.Context) error { _, err := cluster(ctx); return err })
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("serving webhooks: %w", err)
	}
	return nil
}

// trust configures the trusted addresses of API servers: those of the flag, and those that they publish.
func (o *Options) trust(mgr ctrl.Manager, t *trusted) (err error) {
	if t.given, err = parsePrefixes(o.APIServerAddresses); err != nil {
		return err
	}
	follow := manager.RunnableFunc(func(ctx context.Context) error { return t.follow(ctx, mgr.GetCache()) })
	if err := mgr.Add(follow); err != nil {
		return fmt.Errorf("setting up the watch of the API servers' addresses: %w", err)
	}
	return nil
}

// followLevel has the process log at the level that the KubeVirt object asks for.
func followLevel(mgr ctrl.Manager, level *process.Level, log zerolog.Logger) error {
	follow := func(ctx context.Context) error {
		informer, err := mgr.GetCache().GetInformer(ctx, &kubevirtv1.KubeVirt{}, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching the KubeVirt object: %w", err)
		}
		return settings.Follow(informer, func(s settings.Settings) { level.Set(s.LogLevels().API) })
	}
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Steps: 10, Cap: time.Minute}
	retried := manager.RunnableFunc(func(ctx context.Context) error {
		retryFollow(ctx, follow, backoff, log)
		return nil // an error would stop the manager
	})
	if err := mgr.Add(retried); err != nil {
		return fmt.Errorf("setting up the watch of the KubeVirt object: %w", err)
	}
	return nil
}

// retryFollow calls follow until it succeeds or ctx ends. It fails while the API server has no such resource, or does
// not answer.
func retryFollow(ctx context.Context, follow func(context.Context) error, b wait.Backoff, log zerolog.Logger) {
	_ = b.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := follow(ctx)
		if err != nil && ctx.Err() == nil {
			log.Warn().Err(err).Msg("failed to follow the log level of the KubeVirt object; it will be retried")
		}
		return err == nil, nil
	})
}

func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, admissionregistrationv1.AddToScheme,
		authorizationv1.AddToScheme, discoveryv1.AddToScheme, kubevirtv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("registering types: %w", err)
		}
	}
	return s, nil
}

// cacheOptions restrict every watch to the needed object, which is also all that RBAC permits.
func (o *Options) cacheOptions() cache.Options {
	named := func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	here := func(name string) cache.ByObject {
		return cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: {FieldSelector: named(name)}}}
	}
	// Two objects, which no field selector can name together; of the others only the name is kept.
	services := cache.ByObject{Transform: forgetOthers(apiServices())}
	proxy, apiServers := subresources.FrontProxyConfig, apiServerSlice()
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		certificates.NewAPIService(""): services,
		&corev1.ConfigMap{}: {
			Namespaces: map[string]cache.Config{proxy.Namespace: {FieldSelector: named(proxy.Name)}}},
		&discoveryv1.EndpointSlice{}: {
			Namespaces: map[string]cache.Config{apiServers.Namespace: {FieldSelector: named(apiServers.Name)}}},
		&corev1.Secret{}:       here(o.Secret),
		&kubevirtv1.KubeVirt{}: here(settings.ObjectName),
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   {Field: named(o.Webhooks)},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: {Field: named(o.Webhooks)},
	}}
}

// forgetOthers keeps of objects with other names no more than a cache needs.
func forgetOthers(names []string) func(any) (any, error) {
	return func(in any) (any, error) {
		o, ok := in.(*unstructured.Unstructured)
		if !ok || slices.Contains(names, o.GetName()) {
			return in, nil
		}
		out := certificates.NewAPIService(o.GetName())
		out.SetUID(o.GetUID())
		out.SetResourceVersion(o.GetResourceVersion())
		return out, nil
	}
}

// clusterReader reads the configuration object from the cache; without one KubeVirt's defaults apply.
func (o *Options) clusterReader(c client.Reader) func(context.Context) (defaults.Cluster, error) {
	key := types.NamespacedName{Namespace: o.Namespace, Name: settings.ObjectName}
	return func(ctx context.Context) (defaults.Cluster, error) {
		kv := &kubevirtv1.KubeVirt{}
		err := c.Get(ctx, key, kv)
		switch {
		case apierrors.IsNotFound(err):
			return settings.Default().Cluster, nil
		case err != nil:
			return defaults.Cluster{}, fmt.Errorf("reading the KubeVirt object %s: %w", key, err)
		default:
			return settings.From(kv).Cluster, nil
		}
	}
}

// observer counts and times the answers of each webhook.
func observer(r prometheus.Registerer) func(string, bool, time.Duration) {
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "virtflow_admission_duration_seconds",
		Help:    "Time to answer one admission request, by webhook and answer.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12),
	}, []string{"webhook", "allowed"})
	r.MustRegister(took)
	return func(webhook string, allowed bool, d time.Duration) {
		answer := "false"
		if allowed {
			answer = "true"
		}
		took.WithLabelValues(webhook, answer).Observe(d.Seconds())
	}
}
