package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const host = "virtflow-api-server.virtflow.svc"

func setUp(t *testing.T, at *time.Time) (*Rotator, client.Client) {
	t.Helper()
	c := fake.NewClientBuilder().WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "cert"}},
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "virtflow"},
			Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "a.x.y"}, {Name: "b.x.y"}},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "virtflow"},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{{Name: "c.x.y"}},
		},
		NewAPIService("v1.x.y"),
	).Build()
	return replica(c, at), c
}

func replica(c client.Client, at *time.Time) *Rotator {
	k := NewRotator(c, Options{
		Secret: types.NamespacedName{Namespace: "virtflow", Name: "cert"}, Service: "virtflow-api-server",
		MutatingWebhooks: "virtflow", ValidatingWebhooks: "virtflow", APIServices: []string{"v1.x.y"},
	}, zerolog.Nop())
	k.now = func() time.Time { return *at }
	return k
}

// trusted checks the certificate in use against the CA in every webhook, as the API server does.
func trusted(t *testing.T, k *Rotator, c client.Client, at time.Time) {
	t.Helper()
	cert, err := k.Certificate(&tls.ClientHelloInfo{ServerName: host})
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	require.NoError(t, err)
	for _, ca := range bundles(t, c) {
		pool := x509.NewCertPool()
		require.True(t, pool.AppendCertsFromPEM(ca))
		_, err = leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: pool, CurrentTime: at})
		require.NoError(t, err)
	}
}

func bundles(t *testing.T, c client.Client) [][]byte {
	t.Helper()
	var m admissionregistrationv1.MutatingWebhookConfiguration
	require.NoError(t, c.Get(context.Background(), types.NamespacedName{Name: "virtflow"}, &m))
	var v admissionregistrationv1.ValidatingWebhookConfiguration
	require.NoError(t, c.Get(context.Background(), types.NamespacedName{Name: "virtflow"}, &v))
	service := NewAPIService("v1.x.y")
	require.NoError(t, c.Get(context.Background(), types.NamespacedName{Name: "v1.x.y"}, service))
	text, _, err := unstructured.NestedString(service.Object, "spec", "caBundle")
	require.NoError(t, err)
	bundle, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return [][]byte{bundle, m.Webhooks[0].ClientConfig.CABundle, m.Webhooks[1].ClientConfig.CABundle,
		v.Webhooks[0].ClientConfig.CABundle}
}

func do(t *testing.T, k *Rotator) {
	t.Helper()
	_, err := k.Reconcile(context.Background(), reconcile.Request{})
	require.NoError(t, err)
}

func TestCertificateIsMadeSharedAndRenewed(t *testing.T) {
	now := time.Now()
	k, c := setUp(t, &now)
	require.Error(t, k.Ready(context.Background()))
	do(t, k)
	require.NoError(t, k.Ready(context.Background()))
	trusted(t, k, c, now)
	first, _ := k.Certificate(nil)

	other := replica(c, &now)
	do(t, other)
	same, _ := other.Certificate(nil)
	require.Equal(t, first.Certificate, same.Certificate, "replicas share one certificate")

	now = now.Add(certLife - ahead/2)
	do(t, k)
	second, _ := k.Certificate(nil)
	require.NotEqual(t, first.Certificate, second.Certificate, "a certificate that is about to end is replaced")
	trusted(t, k, c, now)
}

func TestBothCAsAreTrustedWhileOneReplacesOther(t *testing.T) {
	now := time.Now()
	k, c := setUp(t, &now)
	do(t, k)
	slow := replica(c, &now)
	do(t, slow)

	now = now.Add(caLife - ahead/2)
	do(t, k)
	trusted(t, k, c, now)
	// The replica that has not read it yet still presents the old certificate; its CA is still trusted, even at its
	// end.
	old, err := slow.Certificate(nil)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(old.Certificate[0])
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundles(t, c)[0])
	_, err = leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: pool, CurrentTime: leaf.NotBefore.Add(time.Hour)})
	require.NoError(t, err)
}

// TestTrustsNewCABeforeItIsUsed: a client without the new bundle still trusts the certificate in use, and one with it
// already trusts the next.
func TestTrustsNewCABeforeItIsUsed(t *testing.T) {
	now := time.Now()
	k, c := setUp(t, &now)
	do(t, k)
	now = now.Add(caLife - ahead - 24*time.Hour)
	do(t, k) // a certificate that is young when the CA changes
	young, _ := k.Certificate(nil)
	before := bundles(t, c)[0]

	knows := func(bundle []byte) error {
		cert, err := k.Certificate(nil)
		require.NoError(t, err)
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		require.NoError(t, err)
		pool := x509.NewCertPool()
		require.True(t, pool.AppendCertsFromPEM(bundle))
		_, err = leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: pool, CurrentTime: now})
		return err
	}
	now = now.Add(48 * time.Hour)
	do(t, k)
	after := bundles(t, c)[0]
	require.NotEqual(t, before, after, "the new CA is published")
	require.NoError(t, knows(before), "it is used before everybody knows it")
	require.NoError(t, knows(after))
	same, _ := k.Certificate(nil)
	require.Equal(t, young.Certificate, same.Certificate)

	restarted := replica(c, &now)
	do(t, restarted)
	same, _ = restarted.Certificate(nil)
	require.Equal(t, young.Certificate, same.Certificate, "nor by a replica that is just starting")

	now = now.Add(spread + checkInterval)
	do(t, k)
	require.Error(t, knows(before), "the new CA is never used")
	require.NoError(t, knows(after), "what was published then is enough")
	trusted(t, k, c, now)
}

func TestNamesMissingSecret(t *testing.T) {
	now := time.Now()
	k, c := setUp(t, &now)
	require.NoError(t, c.Delete(context.Background(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "cert"}}))
	_, err := k.Reconcile(context.Background(), reconcile.Request{})
	require.ErrorContains(t, err, "reading Secret virtflow/cert")
}

// TestWritesCAToExistingObjects: the CA is written to objects that exist although others are missing, and to those once
// they exist.
func TestWritesCAToExistingObjects(t *testing.T) {
	now := time.Now()
	k, c := setUp(t, &now)
	ctx := context.Background()
	k.APIServices = []string{"v1.missing", "v1.x.y"}
	_, err := k.Reconcile(ctx, reconcile.Request{})
	require.ErrorContains(t, err, "v1.missing", "it is tried again")
	require.NoError(t, k.Ready(ctx))
	trusted(t, k, c, now)

	require.NoError(t, c.Create(ctx, NewAPIService("v1.missing")))
	do(t, k)

	gone := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "virtflow"}}
	require.NoError(t, c.Delete(ctx, gone))
	other := replica(c, &now)
	_, err = other.Reconcile(ctx, reconcile.Request{})
	require.ErrorContains(t, err, "MutatingWebhookConfiguration virtflow")
	require.Error(t, other.Ready(ctx), "a webhook that is not there lets everything pass: it is not usual")
	_, err = other.Certificate(nil)
	require.NoError(t, err, "those who do trust it are served")
}
