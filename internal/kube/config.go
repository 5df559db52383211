package kube

import (
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// serviceAccountNamespace is where the kubelet says in which namespace a pod runs.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// noLimit lets requests go out at once. Limiting their rate is for the API server's priority and fairness, which knows
// what else it has to do; a limiter here makes requests wait in this process until their time is over, and be repeated.
// What a process has in flight is bounded by what it works on at a time.
const noLimit = -1

// LoadConfig says how to reach the API server: by a kubeconfig file, or (empty path) as a pod does. The user agent is
// what the API server's audit log shows, for example virtflow-crdwatch.
func LoadConfig(kubeconfig, userAgent string) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("not running in a pod and no --kubeconfig given: %w", err)
		}
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
		}
	}
	config.UserAgent = userAgent
	config.QPS = noLimit
	config.DisableCompression = true // in one cluster it costs both ends more than it spares the network
	config.Wrap((&outages{listed: map[string]int{}}).wrap)
	return config, nil
}

// LeaseConfig is for a client that only elects leaders: it shares no limit and no answer that is late with other
// requests. A request ends in half of the time in which a lease has to be renewed, so that there is time for another
// one.
func LeaseConfig(config *rest.Config, renewDeadline time.Duration) *rest.Config {
	c := rest.CopyConfig(config)
	c.UserAgent += "/leader-election"
	c.QPS, c.RateLimiter = noLimit, nil
	c.Timeout = renewDeadline / 2
	return c
}

// Namespace is the one given, else the one this pod runs in, else fallback.
func Namespace(given, fallback string) string {
	if given != "" {
		return given
	}
	if b, err := os.ReadFile(serviceAccountNamespace); err == nil {
		if ns := strings.TrimSpace(string(b)); ns != "" {
			return ns
		}
	}
	return fallback
}
