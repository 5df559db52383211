package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/virtflow/virtflow/internal/streams/wire"
)

func accessNames() AccessOptions {
	return AccessOptions{
		Own:   types.NamespacedName{Namespace: "virtflow", Name: "own"},
		Nodes: types.NamespacedName{Namespace: "virtflow", Name: "nodes"},
	}
}

func newAccess(c client.Client, at *time.Time) *Access {
	a := NewAccess(c, c, accessNames(), zerolog.Nop())
	a.now = func() time.Time { return *at }
	return a
}

func accessCluster() client.Client {
	o := accessNames()
	return fake.NewClientBuilder().WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.Own.Namespace, Name: o.Own.Name}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.Nodes.Namespace, Name: o.Nodes.Name}},
	).Build()
}

func secretOf(t *testing.T, c client.Client, name types.NamespacedName) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	require.NoError(t, c.Get(context.Background(), name, s))
	return s
}

// shakeHands connects a client to a node worker that has mounted the given Secret.
func shakeHands(t *testing.T, clientConfig *tls.Config, mounted *corev1.Secret, at time.Time) error {
	t.Helper()
	pair, err := tls.X509KeyPair(mounted.Data[corev1.TLSCertKey], mounted.Data[corev1.TLSPrivateKeyKey])
	require.NoError(t, err)
	known := x509.NewCertPool()
	require.True(t, known.AppendCertsFromPEM(mounted.Data[keyCA]))
	clock := func() time.Time { return at }
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	server := tls.Server(a, &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: known, Time: clock,
		VerifyConnection: func(s tls.ConnectionState) error {
			return s.PeerCertificates[0].VerifyHostname(wire.ClientName)
		},
	})
	clientConfig = clientConfig.Clone()
	clientConfig.Time = clock
	done := make(chan error, 1)
	go func() {
		err := server.Handshake()
		a.Close()
		done <- err
	}()
	c := tls.Client(b, clientConfig)
	if err := c.Handshake(); err != nil {
		b.Close()
		return errors.Join(err, <-done)
	}
	_, _ = io.Copy(io.Discard, c)
	return <-done
}

func TestAccessCertificates(t *testing.T) {
	now := time.Now()
	c := accessCluster()
	a := newAccess(c, &now)
	_, err := a.Client()
	require.Error(t, err)
	require.NoError(t, a.Refresh(t.Context()))
	config, err := a.Client()
	require.NoError(t, err)
	nodes, own := secretOf(t, c, a.Nodes), secretOf(t, c, a.Own)
	require.NoError(t, shakeHands(t, config, nodes, now))
	require.NotContains(t, nodes.Data, keyCAKey, "nodes must not have the CA's key")

	// The nodes' certificate is not valid for a client, and the client's not for a server.
	pair, err := tls.X509KeyPair(nodes.Data[corev1.TLSCertKey], nodes.Data[corev1.TLSPrivateKeyKey])
	require.NoError(t, err)
	asNode := config.Clone()
	asNode.Certificates = []tls.Certificate{pair}
	require.Error(t, shakeHands(t, asNode, nodes, now))
	impostor := nodes.DeepCopy()
	impostor.Data[corev1.TLSCertKey], impostor.Data[corev1.TLSPrivateKeyKey] = own.Data[corev1.TLSCertKey],
		own.Data[corev1.TLSPrivateKeyKey]
	require.Error(t, shakeHands(t, config, impostor, now))

	// Another replica uses the same certificates; nothing is written without need.
	other := newAccess(c, &now)
	require.NoError(t, other.Refresh(t.Context()))
	require.Equal(t, own.ResourceVersion, secretOf(t, c, a.Own).ResourceVersion)
	require.Equal(t, nodes.ResourceVersion, secretOf(t, c, a.Nodes).ResourceVersion)

	now = now.Add(certLife - ahead/2)
	require.NoError(t, a.Refresh(t.Context()))
	renewed, err := a.Client()
	require.NoError(t, err)
	require.NotEqual(t, config.Certificates[0].Certificate, renewed.Certificates[0].Certificate)
	require.NoError(t, shakeHands(t, renewed, secretOf(t, c, a.Nodes), now))
	require.NoError(t, shakeHands(t, config, secretOf(t, c, a.Nodes), now), "a replica that has not read it yet still connects")
}

func TestNewAccessCAReachesNodesBeforeItIsUsed(t *testing.T) {
	now := time.Now()
	c := accessCluster()
	a := newAccess(c, &now)
	require.NoError(t, a.Refresh(t.Context()))
	now = now.Add(caLife - ahead - 24*time.Hour)
	require.NoError(t, a.Refresh(t.Context())) // leaves that are young when the CA changes
	before := secretOf(t, c, a.Nodes)

	now = now.Add(48 * time.Hour)
	require.NoError(t, a.Refresh(t.Context()))
	after := secretOf(t, c, a.Nodes)
	require.NotEqual(t, before.Data[keyCA], after.Data[keyCA])
	config, err := a.Client()
	require.NoError(t, err)
	require.NoError(t, shakeHands(t, config, before, now), "a node that the new bundle has not reached")
	require.NoError(t, shakeHands(t, config, after, now))

	now = now.Add(2 * spread)
	require.NoError(t, a.Refresh(t.Context()))
	config, err = a.Client()
	require.NoError(t, err)
	require.NoError(t, shakeHands(t, config, after, now))
	require.NoError(t, shakeHands(t, config, secretOf(t, c, a.Nodes), now))
}
