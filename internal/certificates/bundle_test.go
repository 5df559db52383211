package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestBundleIsPublishedAndKeysAreShared: the clients of a server without webhooks mount a ConfigMap, and its replicas
// share a key.
func TestBundleIsPublishedAndKeysAreShared(t *testing.T) {
	now := time.Now()
	bundle := types.NamespacedName{Namespace: "virtflow", Name: "ca"}
	c := fake.NewClientBuilder().WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "cert"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "ca"},
			Data: map[string]string{"other": "stays"}},
	).Build()
	start := func() *Rotator {
		k := NewRotator(c, Options{
			Secret: types.NamespacedName{Namespace: "virtflow", Name: "cert"}, Service: "door", Bundle: bundle,
			Keys: []string{"a.key", "b.key"},
		}, zerolog.Nop())
		k.now = func() time.Time { return now }
		require.Nil(t, k.Key("a.key"))
		do(t, k)
		require.NoError(t, k.Ready(context.Background()))
		return k
	}
	published := func() []byte {
		var m corev1.ConfigMap
		require.NoError(t, c.Get(context.Background(), bundle, &m))
		require.Equal(t, "stays", m.Data["other"])
		return []byte(m.Data[BundleKey])
	}
	first, second := start(), start()
	require.Len(t, first.Key("a.key"), KeySize)
	require.NotEqual(t, first.Key("a.key"), first.Key("b.key"))
	require.Equal(t, first.Key("a.key"), second.Key("a.key"),
		"replicas, and the same one after a restart, have the same keys")
	require.Nil(t, first.Key("c.key"))

	verify := func(k *Rotator) {
		pool := x509.NewCertPool()
		require.True(t, pool.AppendCertsFromPEM(published()))
		cert, err := k.Certificate(&tls.ClientHelloInfo{})
		require.NoError(t, err)
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		require.NoError(t, err)
		_, err = leaf.Verify(x509.VerifyOptions{DNSName: "door.virtflow.svc", Roots: pool, CurrentTime: now})
		require.NoError(t, err)
	}
	verify(first)

	// A user empties the ConfigMap: it is written again.
	require.NoError(t, c.Update(context.Background(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "ca"}, Data: map[string]string{"other": "stays"},
	}))
	do(t, first)
	verify(first)

	key := first.Key("a.key")
	now = now.Add(certLife - ahead/2)
	do(t, first)
	verify(first)
	require.Equal(t, key, first.Key("a.key"), "a new certificate changes no key")

	// A key of the wrong length is replaced.
	var s corev1.Secret
	require.NoError(t, c.Get(context.Background(), client.ObjectKey{Namespace: "virtflow", Name: "cert"}, &s))
	s.Data["a.key"] = []byte("short")
	require.NoError(t, c.Update(context.Background(), &s))
	do(t, first)
	require.Len(t, first.Key("a.key"), KeySize)
}
