package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-logr/zerologr"
	"github.com/rs/zerolog"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/virtflow/virtflow/internal/certificates"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/process"
)

const (
	userAgent = "virtflow-node-gateway"
	// sealKeyName is the key for task tokens in the Secret.
	sealKeyName = "task-tokens.key"
	// stopTimeout lets open polls end by themselves when the process stops: a task that Temporal has just given to a
	// poll that is cut off waits for its timeout.
	stopTimeout = 65 * time.Second
	// readyTimeout bounds the readiness check's call of Temporal.
	readyTimeout = 1500 * time.Millisecond
)

// Run serves nodes until ctx ends.
func (f *Flags) Run(ctx context.Context, p *process.Process) error {
	if err := f.validate(); err != nil {
		return err
	}
	config, err := kube.LoadConfig(f.Kubeconfig, userAgent, p.Registry)
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a Kubernetes client: %w", err)
	}
	mgr, rotator, err := f.certificates(config, certificates.NewExpiry(p.Registry), p.Log)
	if err != nil {
		return err
	}
	pods, err := NewPods(clients)
	if err != nil {
		return err
	}
	workers, err := NewWorkers(clients, f.Namespace, f.Account)
	if err != nil {
		return err
	}
	connection, err := f.Temporal.Connect()
	if err != nil {
		return err
	}
	defer connection.Close()
	temporal := workflowservice.NewWorkflowServiceClient(connection)
	callers := NewCallers(clients, workers, f.Audience, f.Namespace, f.Account, p.Registry)
	gateway := New(Options{
		Log: p.Log, Namespace: f.Temporal.Namespace, Temporal: temporal, Pods: pods, Registry: p.Registry,
		Callers:  callers,
		SealKey:  func() []byte { return rotator.Key(sealKeyName) },
		OpenKeys: func() [][]byte { return rotator.OpeningKeys(sealKeyName) },
	})
	server, err := gateway.Server(
		credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: rotator.Certificate}))
	if err != nil {
		return err
	}
	p.Health.AddReady("certificate", rotator.Ready)
	p.Health.AddReady("launcher pods", pods.Ready)
	p.Health.AddReady("temporal", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		_, err := temporal.GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
		return err
	})
	listener, err := net.Listen("tcp", f.Address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	life, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	defer all.Wait()
	failed := make(chan error, 2)
	all.Go(func() { pods.Run(life) })
	all.Go(func() { workers.Run(life) })
	all.Go(func() {
		if err := mgr.Start(life); err != nil {
			failed <- fmt.Errorf("keeping the certificate: %w", err)
		}
	})
	all.Go(func() {
		if err := server.Serve(gateway.Limit(listener)); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			failed <- fmt.Errorf("serving nodes: %w", err)
		}
	})
	p.Log.Info().Str("address", listener.Addr().String()).Str("temporal", f.Temporal.Address).Msg("serving nodes")
	select {
	case <-ctx.Done():
		stop(server)
	case err = <-failed:
		server.Stop()
	case err = <-callers.own.refused:
		server.Stop()
	}
	end()
	return err
}

// stop lets open calls end by themselves within stopTimeout.
func stop(s *grpc.Server) {
	late := time.AfterFunc(stopTimeout, s.Stop)
	defer late.Stop()
	s.GracefulStop()
}

// certificates sets up the rotator of the certificate. Every watch is narrowed to the one object that is needed, which
// is also all that RBAC permits.
func (f *Flags) certificates(
	config *rest.Config, expiry certificates.Expiry, log zerolog.Logger,
) (ctrl.Manager, *certificates.Rotator, error) {
	// The libraries' own progress reports are of no interest to operators.
	libraries := log.Level(max(log.GetLevel(), zerolog.WarnLevel))
	logger := zerologr.New(&libraries)
	klog.SetLogger(logger)
	ctrl.SetLogger(logger)
	here := func(name string) cache.ByObject {
		return cache.ByObject{Namespaces: map[string]cache.Config{
			f.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", name)}}}
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, nil, fmt.Errorf("registering types: %w", err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Logger: logger, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: here(f.Secret),
			&corev1.ConfigMap{}: here(f.Bundle)}},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("setting up: %w", err)
	}
	rotator := certificates.NewRotator(mgr.GetClient(), certificates.Options{
		Secret:  types.NamespacedName{Namespace: f.Namespace, Name: f.Secret},
		Service: f.Service,
		Bundle:  types.NamespacedName{Namespace: f.Namespace, Name: f.Bundle},
		Keys:    []string{sealKeyName},
		Expiry:  expiry,
	}, log)
	return mgr, rotator, rotator.SetUp(mgr)
}
