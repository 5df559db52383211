package kube

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// serviceAccountNamespace is where the kubelet says in which namespace a pod runs.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Requests a second that one process may make, and how many at once after a pause. The API server's own fairness is the real
// limit; client-go's default of 5 would make a hundred starting VMs wait for this process.
const (
	requestsPerSecond = 500
	requestsBurst     = 1000
)

// LoadConfig says how to reach the API server: by a kubeconfig file, or (empty path) as a pod does. The user agent is what the
// API server's audit log shows, for example virtflow-crdwatch.
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
	config.QPS = requestsPerSecond
	config.Burst = requestsBurst
	return config, nil
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
