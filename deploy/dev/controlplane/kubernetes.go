package controlplane

import (
	"context"
	_ "embed"
	"path/filepath"
	"time"

	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/readiness"
	"github.com/virtflow/virtflow/deploy/dev/supervise"
	"github.com/virtflow/virtflow/internal/pki"
)

//go:embed files/audit-policy.yaml
var auditPolicy []byte

// What is kept for make scale, which counts requests and events after each step: 10,000 VMs take an hour to start, and
// write some 240 MiB into the audit log.
const (
	auditMiB   = "64"
	auditFiles = "8" // older ones
	eventTTL   = "4h"
)

const etcdURL = "https://127.0.0.1:2379"

func (c Cluster) etcd() supervise.Spec {
	l := c.Layout
	const peer = "http://127.0.0.1:2380" // never used: it is the only member
	return supervise.Spec{
		Name: "etcd", Last: true, Grace: 5 * time.Second,
		Args: []string{
			filepath.Join(c.Programs.Kubernetes, "etcd"), "--name", "dev", "--data-dir", l.Path("etcd"), "--log-level",
			"warn",
			// A killed process loses nothing; only a machine that loses power could.
			"--unsafe-no-fsync",
			"--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "dev=" + peer,
			"--cert-file", l.PKI("etcd", "server.crt"), "--key-file", l.PKI("etcd", "server.key"),
			"--client-cert-auth", "--trusted-ca-file", l.PKI("etcd", "ca.crt"),
		},
	}
}

func (c Cluster) apiserver() supervise.Spec {
	l := c.Layout
	k := func(file string) string { return l.PKI("kubernetes", file) }
	return supervise.Spec{
		Name: "kube-apiserver", Grace: 3 * time.Second,
		Fingerprint: string(auditPolicy),
		Args: []string{
			c.kube(), "kube-apiserver", "--bind-address", "0.0.0.0", "--secure-port", "6443", "--advertise-address",
			layout.HostIP,
			"--etcd-servers", etcdURL, "--etcd-cafile", l.PKI("etcd", "ca.crt"),
			"--etcd-certfile", l.PKI("etcd", "apiserver.crt"), "--etcd-keyfile", l.PKI("etcd", "apiserver.key"),
			"--client-ca-file", k("ca.crt"), "--tls-cert-file", k("apiserver.crt"), "--tls-private-key-file",
			k("apiserver.key"),
			"--kubelet-certificate-authority", k("ca.crt"), "--kubelet-preferred-address-types", "InternalIP",
			"--kubelet-client-certificate", k("apiserver-kubelet-client.crt"), "--kubelet-client-key",
			k("apiserver-kubelet-client.key"),
			"--service-account-issuer", "https://kubernetes.default.svc." + layout.ClusterDomain,
			"--service-account-key-file", k("service-accounts.pub"), "--service-account-signing-key-file",
			k("service-accounts.key"),
			"--service-cluster-ip-range", layout.ServiceCIDR, "--authorization-mode", "Node,RBAC",
			"--enable-admission-plugins", "NodeRestriction", "--allow-privileged",
			// Aggregated API servers trust who the apiserver says a user is, by an authority of its own.
			"--requestheader-client-ca-file", l.PKI("front-proxy", "ca.crt"), "--requestheader-allowed-names",
			"front-proxy-client",
			"--requestheader-extra-headers-prefix", "X-Remote-Extra-", "--requestheader-group-headers",
			"X-Remote-Group",
			"--requestheader-username-headers", "X-Remote-User",
			"--proxy-client-cert-file", l.PKI("front-proxy", "client.crt"), "--proxy-client-key-file",
			l.PKI("front-proxy", "client.key"),
			// The host has no kube-proxy: webhooks and aggregated servers are reached at their pods.
			"--enable-aggregator-routing",
			"--audit-policy-file", l.Path("run", "audit-policy.yaml"), "--audit-log-path", l.Audit(),
			"--audit-log-maxsize", auditMiB, "--audit-log-maxbackup", auditFiles,
			"--event-ttl", eventTTL,
		},
	}
}

func (c Cluster) controllerManager() supervise.Spec {
	l := c.Layout
	const name = "kube-controller-manager"
	return supervise.Spec{
		Name: name, Grace: 3 * time.Second, Needs: c.apiserverReady,
		Args: append([]string{c.kube(), name}, append(c.client(name),
			// Each controller fetches its own account when it starts; the default of 20 a second makes that take
			// seconds.
			"--kube-api-qps", "200", "--kube-api-burst", "300",
			// A kubelet reports every 10 s. Tests that silence one wait for this; the default is 50 s.
			"--node-monitor-grace-period", "25s",
			"--use-service-account-credentials", "--root-ca-file", l.PKI("kubernetes", "ca.crt"),
			"--service-account-private-key-file", l.PKI("kubernetes", "service-accounts.key"),
			"--cluster-signing-cert-file", l.PKI("kubernetes", "ca.crt"), "--cluster-signing-key-file",
			l.PKI("kubernetes", "ca.key"),
			"--requestheader-client-ca-file", l.PKI("front-proxy", "ca.crt"),
			"--cluster-cidr", layout.PodCIDR, "--service-cluster-ip-range", layout.ServiceCIDR,
			"--allocate-node-cidrs=false")...),
	}
}

func (c Cluster) scheduler() supervise.Spec {
	const name = "kube-scheduler"
	return supervise.Spec{
		Name: name, Grace: 3 * time.Second, Needs: c.apiserverReady,
		Args: append([]string{c.kube(), name}, c.client(name)...),
	}
}

// client are the flags that the controller manager and the scheduler share.
func (c Cluster) client(user string) []string {
	conf := c.Layout.Kubeconfig(user)
	return []string{
		"--kubeconfig", conf, "--authentication-kubeconfig", conf, "--authorization-kubeconfig", conf,
		"--bind-address", "127.0.0.1", "--leader-elect=false", "--profiling=false",
	}
}

func (c Cluster) apiserverReady(ctx context.Context) error { return readiness.Wait(ctx, c.Layout) }

func (c Cluster) kube() string { return filepath.Join(c.Programs.Kubernetes, "kube") }

// writeFiles writes what the processes read when they start, other than keys.
func (c Cluster) writeFiles() error {
	return pki.WriteFile(c.Layout.Path("run", "audit-policy.yaml"), auditPolicy, 0o644)
}
