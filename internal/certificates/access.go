package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtflow/virtflow/internal/streams/wire"
)

const accessCAName = "virtflow-node-access-ca"

// AccessOptions names the Secrets with the certificates between the API server and the node workers. Both must exist,
// empty at first.
type AccessOptions struct {
	// Own has the CA with its key, and the API server's client certificate. Only the API server may read it.
	Own types.NamespacedName
	// Nodes is mounted by node workers: it has their server certificate, and the CA without its key.
	Nodes types.NamespacedName
	// Expiry shows when their certificates expire.
	Expiry Expiry
}

// Access renews the certificates by which the API server and the node workers authenticate each other: a CA of their
// own, and one certificate for each role, good for that role only. It is safe for concurrent use, in one process and in
// several.
type Access struct {
	AccessOptions
	reader  client.Reader
	writer  client.Writer
	log     zerolog.Logger
	now     func() time.Time
	current atomic.Pointer[tls.Config]
}

// NewAccess returns an Access. The reader may be a cache: writes have the resourceVersion that was read.
func NewAccess(r client.Reader, w client.Writer, o AccessOptions, log zerolog.Logger) *Access {
	return &Access{AccessOptions: o, reader: r, writer: w, log: log, now: time.Now}
}

// Client returns the TLS configuration with which the API server connects to node workers.
func (a *Access) Client() (*tls.Config, error) {
	c := a.current.Load()
	if c == nil {
		return nil, errors.New("there is no certificate for access to nodes yet")
	}
	return c, nil
}

// Refresh renews certificates that are about to expire, and begins to use new ones.
func (a *Access) Refresh(ctx context.Context) error {
	own, err := a.keep(ctx, a.Own, a.renewOwn)
	if err != nil {
		return err
	}
	_, err = a.keep(ctx, a.Nodes, func(s *corev1.Secret) (string, error) { return a.renewNodes(s, own) })
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(own.Data[corev1.TLSCertKey], own.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("loading the certificate in Secret %s: %w", a.Own, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundleOf(own))
	a.current.Store(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: roots,
		ServerName: wire.ServerName, NextProtos: []string{"http/1.1"},
	})
	return nil
}

// keep reads a Secret, and writes it if renew has changed it. If another replica has written it first, the next refresh
// finds its write.
func (a *Access) keep(
	ctx context.Context, name types.NamespacedName, renew func(*corev1.Secret) (string, error),
) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := a.reader.Get(ctx, name, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s (part of virtflow's manifests, empty at first): %w", name, err)
	}
	a.Expiry.observe(secret)
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	renewed, err := renew(secret)
	if err != nil || renewed == "" {
		return secret, err
	}
	if err := a.writer.Update(ctx, secret); err != nil {
		if apierrors.IsConflict(err) {
			return nil, fmt.Errorf("another replica has written Secret %s", name)
		}
		return nil, fmt.Errorf("writing Secret %s: %w", name, err)
	}
	a.log.Info().Str("namespace", name.Namespace).Str("name", name.Name).Str("renewed", renewed).
		Msg("renewed certificate")
	return secret, nil
}

func role(name string, usage x509.ExtKeyUsage) *issuer {
	return &issuer{rotator.CertRotator{
		CAName: accessCAName, CAOrganization: "virtflow", DNSName: name, ExtKeyUsages: &[]x509.ExtKeyUsage{usage},
	}}
}

func (a *Access) renewOwn(secret *corev1.Secret) (string, error) {
	return role(wire.ClientName, x509.ExtKeyUsageClientAuth).renew(secret, a.now())
}

func (a *Access) renewNodes(secret, own *corev1.Secret) (string, error) {
	bundle := bundleOf(own)
	renewed := ""
	if !bytes.Equal(secret.Data[keyCA], bundle) {
		secret.Data[keyCA] = bundle
		renewed = "ca"
	}
	signed, err := role(wire.ServerName, x509.ExtKeyUsageServerAuth).renewLeaf(secret, own, a.now())
	if signed != "" {
		renewed = signed
	}
	return renewed, err
}
