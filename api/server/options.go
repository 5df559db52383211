package server

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/virtflow/virtflow/api/subresources/streams"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

// Options has the flags of the api server.
type Options struct {
	Kubeconfig      string
	Namespace       string
	Port            int
	Service         string
	Secret          string
	Webhooks        string
	ServiceAccounts []string
	Temporal        temporalclient.Options
	// AccessSecret and NodeAccessSecret have the certificates between this process and the node workers.
	AccessSecret     string
	NodeAccessSecret string
	NodeWorker       string
	// APIServerAddresses are addresses and CIDRs from which API servers call, besides those that they publish.
	APIServerAddresses []string
	// StreamOrigins are the hosts whose pages may open streams.
	StreamOrigins []string
}

// AddFlags registers the flags of o.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	o.Temporal.AddFlags(f)
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's own service account")
	f.StringVar(&o.Namespace, "namespace", "virtflow", "namespace of virtflow and of its KubeVirt object")
	f.IntVar(&o.Port, "port", 8443, "port of the webhook server")
	f.StringVar(&o.Service, "service", "virtflow-api-server", "name of the Service in front of this process")
	f.StringVar(&o.Secret, "certificate-secret", "virtflow-api-server-certificate",
		"name of the Secret that keeps the certificate; it must exist, empty at first")
	f.StringVar(&o.Webhooks, "webhook-configurations", "virtflow",
		"name of the mutating and of the validating webhook configuration")
	f.StringSliceVar(&o.ServiceAccounts, "own-service-accounts",
		[]string{"virtflow-control-worker", "virtflow-api-server"},
		"service accounts in the namespace that write for virtflow itself")
	f.StringVar(&o.AccessSecret, "access-secret", "virtflow-access",
		"name of the Secret with the CA of access to nodes and the certificate of this side; it must exist, empty "+
			"at first")
	f.StringVar(&o.NodeAccessSecret, "node-access-secret", "virtflow-node-access",
		"name of the Secret with the nodes' certificate; it must exist, empty at first")
	f.StringVar(&o.NodeWorker, "node-worker", "virtflow-node-worker",
		"label app.kubernetes.io/name of the node workers' pods")
	f.StringSliceVar(&o.APIServerAddresses, "api-server-addresses", nil,
		"addresses and CIDRs from which API servers call webhooks, where these are neither in EndpointSlice "+
			"default/kubernetes nor those of the front proxy: with konnectivity its agents'")
	f.StringSliceVar(&o.StreamOrigins, "stream-origins", streams.DefaultOrigins(),
		"hosts whose web pages may open consoles, screens and forwarded ports, such as that of a web UI; '*': any")
}

func (o *Options) check() error {
	switch {
	case o.Namespace == "":
		return errors.New("--namespace is empty: give the namespace in which virtflow runs")
	case o.Port < 1 || o.Port > 65535:
		return errors.New("--port must be from 1 to 65535")
	}
	if _, err := parsePrefixes(o.APIServerAddresses); err != nil {
		return fmt.Errorf("--api-server-addresses: %w", err)
	}
	return nil
}

func (o *Options) ownUsers() []string {
	users := make([]string, len(o.ServiceAccounts))
	for i, a := range o.ServiceAccounts {
		users[i] = "system:serviceaccount:" + o.Namespace + ":" + a
	}
	return users
}
