package temporalclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"github.com/uber-go/tally/v4"
	tallyprom "github.com/uber-go/tally/v4/prometheus"
	"go.temporal.io/sdk/client"
	sdktally "go.temporal.io/sdk/contrib/tally"
	// The roots of public CAs, for images that have none: Temporal Cloud's certificate is of such a CA. A bundle of the
	// system, or in $SSL_CERT_FILE, takes precedence.
	_ "golang.org/x/crypto/x509roots/fallback"
	"google.golang.org/grpc"

	"github.com/virtflow/virtflow/contract"
)

// Options has the address of Temporal and the credentials. The zero value is not usable: Address must be set.
type Options struct {
	Address       string
	Namespace     string
	TLSCA         string
	TLSCert       string
	TLSKey        string
	TLSServerName string
	APIKeyFile    string
	// Plaintext permits a connection without TLS, which everyone on its path can read and change.
	Plaintext bool
	// Compress compresses requests and answers with gzip, as the SDK does by default. With a server in the same data
	// centre that costs both sides more CPU time than it saves.
	Compress bool
	// NoWorkerHeartbeats turns off the reports of workers about themselves to Temporal; a node gateway refuses them.
	NoWorkerHeartbeats bool
	// Interceptors are called for each attempt of a call.
	Interceptors []grpc.UnaryClientInterceptor
}

// AddFlags registers the flags of o.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Address, "temporal-address", "", "host:port of Temporal's frontend (or of the node gateway)")
	f.StringVar(&o.Namespace, "temporal-namespace", contract.Namespace, "Temporal namespace")
	f.StringVar(&o.TLSCA, "temporal-tls-ca", "", "PEM file with the CA of Temporal's certificate; empty: the system's, else Mozilla's")
	f.StringVar(&o.TLSCert, "temporal-tls-cert", "", "PEM file with the client certificate")
	f.StringVar(&o.TLSKey, "temporal-tls-key", "", "PEM file with the client's private key")
	f.StringVar(&o.TLSServerName, "temporal-tls-server-name", "",
		"name expected in Temporal's certificate, where it is not the address")
	f.StringVar(&o.APIKeyFile, "temporal-api-key-file", "",
		"file with an API key (read again for each call), instead of a client certificate")
	f.BoolVar(&o.Plaintext, "temporal-plaintext", false,
		"connect without TLS: only for a Temporal on a network whose users may all do everything")
	f.BoolVar(&o.Compress, "temporal-compress", false,
		"compress what goes to Temporal and comes from it: for a Temporal that is far away")
}

// ClientOptions returns the options for the Temporal SDK; the caller may add interceptors.
func (o *Options) ClientOptions(log zerolog.Logger, reg *prometheus.Registry, identity string) (client.Options, error) {
	if o.Address == "" {
		return client.Options{}, errors.New("--temporal-address is not set: give host:port of Temporal's frontend")
	}
	opts := client.Options{
		HostPort:  o.Address,
		Namespace: o.Namespace,
		Identity:  identity,
		Logger:    NewLogger(log),
	}
	if reg != nil {
		opts.MetricsHandler = sdktally.NewMetricsHandler(metricsScope(reg, log))
	}
	t, err := o.tlsConfig()
	if err != nil {
		return client.Options{}, err
	}
	if t != nil {
		opts.ConnectionOptions = client.ConnectionOptions{TLS: t,
			DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(o.transport(t))}}
	}
	if !o.Compress {
		opts.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	opts.ConnectionOptions.DialOptions = append(opts.ConnectionOptions.DialOptions,
		grpc.WithChainUnaryInterceptor(o.Interceptors...))
	if o.NoWorkerHeartbeats {
		opts.WorkerHeartbeatInterval = -1
	}
	if o.APIKeyFile != "" {
		opts.Credentials = client.NewAPIKeyDynamicCredentials(func(context.Context) (string, error) {
			return o.apiKey()
		})
	}
	return opts, nil
}

// Dial connects and retries until Temporal answers or ctx ends: a process that starts before Temporal waits for it.
func (o *Options) Dial(
	ctx context.Context, log zerolog.Logger, reg *prometheus.Registry, identity string,
) (client.Client, error) {
	opts, err := o.ClientOptions(log, reg, identity)
	if err != nil {
		return nil, err
	}
	var c client.Client
	var last error
	err = Retry().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		attempt, cancel := context.WithTimeout(ctx, checkTime)
		defer cancel()
		if c, last = client.DialContext(attempt, opts); last != nil {
			log.Warn().Err(last).Str("address", o.Address).Msg("failed to connect to Temporal, trying again")
		}
		return last == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to Temporal at %s: %w", o.Address, errors.Join(err, last))
	}
	return c, nil
}

func (o *Options) apiKey() (string, error) {
	b, err := os.ReadFile(o.APIKeyFile)
	if err != nil {
		return "", fmt.Errorf("reading the Temporal API key: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// tlsConfig returns the TLS configuration; nil for a plaintext connection, which must be requested explicitly. An API
// key is never sent without TLS.
func (o *Options) tlsConfig() (*tls.Config, error) {
	secured := o.TLSCA != "" || o.TLSCert != "" || o.TLSKey != "" || o.APIKeyFile != ""
	switch {
	case o.Plaintext && secured:
		return nil, errors.New("--temporal-plaintext excludes --temporal-tls-ca, --temporal-tls-cert, " +
			"--temporal-tls-key and --temporal-api-key-file: remove either")
	case o.Plaintext:
		return nil, nil
	case !secured:
		return nil, errors.New("no credentials for Temporal: set --temporal-tls-ca, --temporal-tls-cert with " +
			"--temporal-tls-key, or --temporal-api-key-file; --temporal-plaintext for a Temporal without TLS")
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.TLSServerName}
	if o.TLSCA != "" {
		pem, err := os.ReadFile(o.TLSCA)
		if err != nil {
			return nil, fmt.Errorf("--temporal-tls-ca: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--temporal-tls-ca: no certificate in %s", o.TLSCA)
		}
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return nil, errors.New("--temporal-tls-cert and --temporal-tls-key go together")
	}
	if o.TLSCert != "" {
		if _, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey); err != nil {
			return nil, fmt.Errorf("--temporal-tls-cert: %w", err)
		}
		// Read again at each handshake, so that a rotated certificate needs no restart.
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
			return &c, err
		}
	}
	return t, nil
}

// metricsScope names the SDK's metrics as Prometheus requires and registers them in the process's own registry.
func metricsScope(reg *prometheus.Registry, log zerolog.Logger) tally.Scope {
	reporter := tallyprom.NewReporter(tallyprom.Options{
		Registerer: reg,
		// Histograms can be added up over processes, which quantiles cannot, and cost less to keep.
		DefaultTimerType:        tallyprom.HistogramTimerType,
		DefaultHistogramBuckets: timerBuckets(),
		OnRegisterError: func(err error) {
			log.Debug().Err(err).Msg("failed to register metric of Temporal's SDK")
		},
	})
	scope, _ := tally.NewRootScope(tally.ScopeOptions{
		CachedReporter:  reporter,
		Separator:       tallyprom.DefaultSeparator,
		SanitizeOptions: &sdktally.PrometheusSanitizeOptions,
	}, time.Second)
	return sdktally.NewPrometheusNamingScope(scope)
}

// timerBuckets are the upper bounds in seconds for whatever is timed, from a call to Temporal to the start of a guest
// that waits for its image.
func timerBuckets() []float64 {
	return []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
}
