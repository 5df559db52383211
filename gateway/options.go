package gateway

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/virtflow/virtflow/internal/temporalclient"
)

// Flags are the flags of the node gateway.
type Flags struct {
	Temporal   temporalclient.Options
	Kubeconfig string
	Namespace  string
	Address    string
	Service    string
	Secret     string
	Bundle     string
	Audience   string
	Account    string
}

// AddFlags registers the flags.
func (f *Flags) AddFlags(s *pflag.FlagSet) {
	f.Temporal.AddFlags(s)
	s.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's own service account")
	s.StringVar(&f.Namespace, "namespace", "virtflow", "namespace of virtflow itself")
	s.StringVar(&f.Address, "address", ":7233", "address that node workers connect to")
	s.StringVar(&f.Service, "service", "virtflow-node-gateway", "name of the Service in front of this process")
	s.StringVar(&f.Secret, "certificate-secret", "virtflow-node-gateway-certificate",
		"name of the Secret that keeps the certificate and the key for task tokens; it must exist, empty at first")
	s.StringVar(&f.Bundle, "ca-configmap", "virtflow-node-gateway-ca",
		"name of the ConfigMap that gets the CA, for the node workers; it must exist, empty at first")
	s.StringVar(&f.Audience, "audience", "virtflow-node-gateway",
		"audience of the node workers' service-account tokens")
	s.StringVar(&f.Account, "node-service-account", "virtflow-node-worker", "service account of the node workers")
}

func (f *Flags) validate() error {
	switch {
	case f.Namespace == "":
		return errors.New("--namespace is empty: give the namespace that virtflow runs in")
	case f.Audience == "":
		return errors.New("--audience is empty: tokens for the API server itself must not be taken here")
	case f.Account == "":
		return errors.New("--node-service-account is empty")
	}
	return nil
}
