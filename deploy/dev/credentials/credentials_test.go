package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/deploy/dev/layout"
)

func TestEnsure(t *testing.T) {
	l := layout.Layout{State: t.TempDir()}
	require.NoError(t, Ensure(l))

	pool := func(authority string) *x509.CertPool {
		roots := x509.NewCertPool()
		data, err := os.ReadFile(l.PKI(authority, "ca.crt"))
		require.NoError(t, err)
		require.True(t, roots.AppendCertsFromPEM(data))
		return roots
	}
	for _, c := range []struct {
		authority, name, host string
		usage                 x509.ExtKeyUsage
	}{
		{"kubernetes", "apiserver", layout.HostIP, x509.ExtKeyUsageServerAuth},
		{"kubernetes", "apiserver", layout.ServiceAPI, x509.ExtKeyUsageServerAuth},
		{"kubernetes", "apiserver", "kubernetes.default.svc", x509.ExtKeyUsageServerAuth},
		{"kubernetes", "node2", "10.210.0.12", x509.ExtKeyUsageServerAuth},
		{"kubernetes", "node2", "", x509.ExtKeyUsageClientAuth},
		{"etcd", "server", "127.0.0.1", x509.ExtKeyUsageServerAuth},
		{"front-proxy", "client", "", x509.ExtKeyUsageClientAuth},
		{"temporal", "server", layout.HostIP, x509.ExtKeyUsageServerAuth},
		{"temporal", "server", layout.TemporalName, x509.ExtKeyUsageServerAuth},
		{"temporal", "server", "localhost", x509.ExtKeyUsageClientAuth},
		{"temporal", "client", "", x509.ExtKeyUsageClientAuth},
		{"temporal", "control-worker", "", x509.ExtKeyUsageClientAuth},
		{"temporal", "node-gateway", "", x509.ExtKeyUsageClientAuth},
	} {
		pair, err := tls.LoadX509KeyPair(l.PKI(c.authority, c.name+".crt"), l.PKI(c.authority, c.name+".key"))
		require.NoError(t, err)
		cert, err := x509.ParseCertificate(pair.Certificate[0])
		require.NoError(t, err)
		_, err = cert.Verify(x509.VerifyOptions{Roots: pool(c.authority), DNSName: c.host,
			KeyUsages: []x509.ExtKeyUsage{c.usage}})
		require.NoError(t, err, "%s/%s as %q", c.authority, c.name, c.host)
		for _, other := range []string{"kubernetes", "etcd", "front-proxy", "temporal"} {
			if other != c.authority {
				_, err := cert.Verify(x509.VerifyOptions{Roots: pool(other),
					KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
				require.Error(t, err, "%s/%s is not trusted by %s", c.authority, c.name, other)
			}
		}
	}

	keys, err := filepath.Glob(l.Path("pki", "*", "*.key"))
	require.NoError(t, err)
	configs, err := filepath.Glob(l.Path("kubeconfig", "*.conf"))
	require.NoError(t, err)
	for _, secret := range append(keys, configs...) {
		info, err := os.Stat(secret)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), secret)
	}
}

func TestEnsureKeepsWhatIsGoodAndReplacesWhatIsNot(t *testing.T) {
	l := layout.Layout{State: t.TempDir()}
	require.NoError(t, Ensure(l))
	read := func(path string) string {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(data)
	}
	admin, node1, conf := read(l.PKI("kubernetes", "admin.crt")), l.PKI("kubernetes", "node1.crt"),
		read(l.Kubeconfig("admin"))
	old := read(node1)

	// What a killed run can leave: a certificate without its key, and half a file.
	require.NoError(t, os.Remove(l.PKI("kubernetes", "node1.key")))
	require.NoError(t, os.WriteFile(l.PKI("kubernetes", "kube-proxy.crt"), []byte("-----BEGIN"), 0o644))
	require.NoError(t, Ensure(l))

	require.Equal(t, admin, read(l.PKI("kubernetes", "admin.crt")))
	require.Equal(t, conf, read(l.Kubeconfig("admin")))
	require.NotEqual(t, old, read(node1))
	_, err := tls.LoadX509KeyPair(node1, l.PKI("kubernetes", "node1.key"))
	require.NoError(t, err)
	_, err = tls.LoadX509KeyPair(l.PKI("kubernetes", "kube-proxy.crt"), l.PKI("kubernetes", "kube-proxy.key"))
	require.NoError(t, err)
}

func TestKubeconfig(t *testing.T) {
	l := layout.Layout{State: t.TempDir()}
	require.NoError(t, Ensure(l))
	data, err := os.ReadFile(l.Kubeconfig("node1"))
	require.NoError(t, err)
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			} `json:"user"`
		} `json:"users"`
	}
	require.NoError(t, json.Unmarshal(data, &config))
	require.Equal(t, layout.APIServer, config.Clusters[0].Cluster.Server)
	pair, err := tls.X509KeyPair(config.Users[0].User.Certificate, config.Users[0].User.Key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	require.Equal(t, "system:node:node1", cert.Subject.CommonName)
	require.Equal(t, []string{"system:nodes"}, cert.Subject.Organization)
}
