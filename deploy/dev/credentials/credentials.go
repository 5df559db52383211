package credentials

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/internal/pki"
)

// authority is one authority of the cluster with what it issues.
type authority struct {
	folder, commonName string
	requests           []pki.Request
}

// authorities returns the cluster's authorities. Each has its own key, so that a certificate of one proves nothing to
// another.
func authorities() []authority {
	kubernetes := []pki.Request{
		{
			Name: "apiserver", CommonName: "kube-apiserver",
			Names: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc." + layout.ClusterDomain, "localhost"},
			IPs: []string{layout.HostIP, layout.ServiceAPI, "127.0.0.1"},
		},
		{Name: "apiserver-kubelet-client", CommonName: "kube-apiserver-kubelet-client",
			Organizations: []string{"system:masters"}},
		{Name: "admin", CommonName: "admin", Organizations: []string{"system:masters"}},
		{Name: "kube-controller-manager", CommonName: "system:kube-controller-manager"},
		{Name: "kube-scheduler", CommonName: "system:kube-scheduler"},
		{Name: "kube-proxy", CommonName: "system:kube-proxy"},
		{Name: "storage", CommonName: "virtflow-dev:storage"},
		{Name: "multus", CommonName: "virtflow-dev:multus"},
	}
	for _, n := range layout.Nodes() {
		kubernetes = append(kubernetes, pki.Request{
			Name: n.Name, CommonName: "system:node:" + n.Name, Organizations: []string{"system:nodes"},
			Names: []string{n.Name}, IPs: []string{n.IP}, ClientToo: true,
		})
	}
	return []authority{
		{"kubernetes", "virtflow-dev kubernetes", kubernetes},
		{"front-proxy", "virtflow-dev front-proxy", []pki.Request{{Name: "client", CommonName: "front-proxy-client"}}},
		{"etcd", "virtflow-dev etcd", []pki.Request{
			{Name: "server", CommonName: "etcd", Names: []string{"localhost"}, IPs: []string{"127.0.0.1"},
				ClientToo: true},
			{Name: "apiserver", CommonName: "kube-apiserver"},
		}},
		{"temporal", "virtflow-dev temporal", append([]pki.Request{
			{
				Name: "server", CommonName: layout.TemporalName,
				Names: []string{layout.TemporalName, "localhost"}, IPs: []string{layout.HostIP, "127.0.0.1"},
				// The server's own roles call one another, and show this to do so.
				ClientToo: true,
			},
			{Name: "client", CommonName: "virtflow"},
		}, temporalClients()...)},
	}
}

// TemporalClients are virtflow's processes that call Temporal, each with a certificate of its name.
func TemporalClients() []string {
	return []string{"control-worker", "crdwatch", "api-server", "node-gateway"}
}

// temporalClients are their certificates. The organization is the role by which Temporal knows what each may do.
func temporalClients() []pki.Request {
	var requests []pki.Request
	for _, process := range TemporalClients() {
		requests = append(requests, pki.Request{Name: process, CommonName: "virtflow-" + process,
			Organizations: []string{"virtflow:" + process}})
	}
	return requests
}

// kubeconfigUsers are the certificates of the Kubernetes authority that become kubeconfig files of the same name.
func kubeconfigUsers() []string {
	users := []string{"admin", "kube-controller-manager", "kube-scheduler", "kube-proxy", "storage", "multus"}
	for _, n := range layout.Nodes() {
		users = append(users, n.Name)
	}
	return users
}

// Ensure makes every authority, certificate and kubeconfig file of the cluster that is not there.
func Ensure(l layout.Layout) error {
	for _, a := range authorities() {
		ca, err := pki.OpenAuthority(l.Path("pki", a.folder), a.commonName)
		if err != nil {
			return err
		}
		for _, r := range a.requests {
			if err := ca.Ensure(r); err != nil {
				return fmt.Errorf("certificates of %s: %w", a.folder, err)
			}
		}
	}
	if err := pki.EnsureSigningKey(l.Path("pki", "kubernetes"), "service-accounts"); err != nil {
		return err
	}
	for _, user := range kubeconfigUsers() {
		if err := writeKubeconfig(l, user); err != nil {
			return err
		}
	}
	return nil
}

func writeKubeconfig(l layout.Layout, user string) error {
	var files [3]string
	for i, file := range []string{"ca.crt", user + ".crt", user + ".key"} {
		data, err := os.ReadFile(l.PKI("kubernetes", file))
		if err != nil {
			return fmt.Errorf("read the certificate of %s: %w", user, err)
		}
		files[i] = base64.StdEncoding.EncodeToString(data)
	}
	const name = "virtflow-dev"
	// JSON is YAML, too; kubectl takes it.
	data, err := json.MarshalIndent(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []any{map[string]any{"name": name,
			"cluster": map[string]any{"server": layout.APIServer, "certificate-authority-data": files[0]}}},
		"users": []any{map[string]any{"name": user,
			"user": map[string]any{"client-certificate-data": files[1], "client-key-data": files[2]}}},
		"contexts": []any{map[string]any{"name": name, "context": map[string]any{"cluster": name, "user": user}}},
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the kubeconfig of %s: %w", user, err)
	}
	path := l.Kubeconfig(user)
	if have, err := os.ReadFile(path); err == nil && string(have) == string(data) {
		return nil
	}
	return pki.WriteFile(path, data, 0o600)
}
