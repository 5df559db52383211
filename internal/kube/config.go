package kube

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// serviceAccountNamespace is the file with the namespace of the pod.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// noLimit disables client-side rate limiting. The API server's priority and fairness limits requests, and knows the
// rest of its load; a limiter here would make requests wait in this process until they time out and are repeated. The
// number of requests in flight is bounded by the concurrency of each process.
const noLimit = -1

// LoadConfig returns the client configuration: from a kubeconfig file, or (empty path) from the pod's service account.
// The user agent appears in the API server's audit log, for example virtflow-crdwatch. The registry gets the number of
// requests.
func LoadConfig(kubeconfig, userAgent string, registry prometheus.Registerer) (*rest.Config, error) {
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
	config.DisableCompression = true        // within a cluster it costs both ends more CPU time than it saves
	config.Wrap(NewRequests(registry).wrap) // below outages, whose answers are no requests
	config.Wrap((&outages{listed: map[string]int{}}).wrap)
	return config, nil
}

// LeaseConfig is for a client that only elects leaders: it shares no limit and no delayed answer with other requests. A
// request ends after half of the time in which a lease has to be renewed, so that there is time for another attempt.
func LeaseConfig(config *rest.Config, renewDeadline time.Duration) *rest.Config {
	c := rest.CopyConfig(config)
	c.UserAgent += "/leader-election"
	c.QPS, c.RateLimiter = noLimit, nil
	c.Timeout = renewDeadline / 2
	return c
}

// Namespace returns the given one, else that of this pod, else fallback.
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
