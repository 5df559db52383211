package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
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

	"github.com/virtflow/virtflow/workers/node/access/wire"
)

const (
	accessCAName = "virtflow-node-access-ca"
	// accessInterval is how often the certificates are looked at once there are any, accessPause how often before, and after an error.
	accessInterval = time.Minute
	accessPause    = 2 * time.Second
	// spread is how long a new CA is given to reach every node (the kubelet takes a minute or two) before anything signed by it is shown.
	spread = time.Hour
)

// AccessOptions say where the certificates between the API server and the node workers are kept. Both Secrets must exist, empty at first.
type AccessOptions struct {
	// Own has the CA with its key, and the API server's client certificate. Nobody else may read it.
	Own types.NamespacedName
	// Nodes has what node workers mount: their server certificate, and the CA without its key.
	Nodes types.NamespacedName
}

// Access keeps the certificates by which the API server and the node workers know each other: a CA of their own, and one certificate for each
// role, good for that role only. It is safe for concurrent use, in one process and in several.
type Access struct {
	AccessOptions
	reader  client.Reader
	writer  client.Writer
	log     zerolog.Logger
	now     func() time.Time
	current atomic.Pointer[tls.Config]
}

// NewAccess makes an Access. The reader must not be a cache: the permission is for these Secrets by name, without watching.
func NewAccess(r client.Reader, w client.Writer, o AccessOptions, log zerolog.Logger) *Access {
	return &Access{AccessOptions: o, reader: r, writer: w, log: log, now: time.Now}
}

// Start keeps the certificates until ctx ends. Every replica does it.
func (a *Access) Start(ctx context.Context) error {
	for {
		pause := accessInterval
		if err := a.Refresh(ctx); err != nil {
			pause = accessPause
			a.log.Warn().Err(err).Msg("the certificates for access to nodes are not as they should be")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// NeedLeaderElection is for a manager: every replica needs the certificates.
func (a *Access) NeedLeaderElection() bool { return false }

// Client is how the API server connects to node workers.
func (a *Access) Client() (*tls.Config, error) {
	c := a.current.Load()
	if c == nil {
		return nil, errors.New("there is no certificate for access to nodes yet")
	}
	return c, nil
}

// Refresh renews what is about to end, and takes up what is new.
func (a *Access) Refresh(ctx context.Context) error {
	own, err := a.keep(ctx, a.Own, func(s *corev1.Secret) (string, error) { return a.renewOwn(s) })
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
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: wire.ServerName, NextProtos: []string{"http/1.1"},
	})
	return nil
}

// keep reads a Secret, and writes it where renew has changed it. When another replica was faster, the next refresh finds what it wrote.
func (a *Access) keep(ctx context.Context, name types.NamespacedName, renew func(*corev1.Secret) (string, error)) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := a.reader.Get(ctx, name, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s (part of virtflow's manifests, empty at first): %w", name, err)
	}
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
	a.log.Info().Str("namespace", name.Namespace).Str("name", name.Name).Str("renewed", renewed).Msg("certificate renewed")
	return secret, nil
}

func role(name string, usage x509.ExtKeyUsage) *issuer {
	return &issuer{rotator.CertRotator{
		CAName: accessCAName, CAOrganization: "virtflow", DNSName: name, ExtKeyUsages: &[]x509.ExtKeyUsage{usage},
	}}
}

func (a *Access) renewOwn(secret *corev1.Secret) (string, error) {
	i, now, d := role(wire.ClientName, x509.ExtKeyUsageClientAuth), a.now(), secret.Data
	renewed := ""
	if ok, _ := rotator.ValidCert(d[keyCA], d[keyCA], d[keyCAKey], accessCAName, nil, now.Add(ahead)); !ok {
		ca, err := i.CreateCACert(now.Add(-time.Hour), now.Add(caLife))
		if err != nil {
			return "", fmt.Errorf("making a CA: %w", err)
		}
		d[keyPreviousCA], d[keyCA], d[keyCAKey] = d[keyCA], ca.CertPEM, ca.KeyPEM
		renewed = "ca"
	}
	signed, err := i.renewLeaf(secret, secret, now)
	if renewed == "" {
		renewed = signed
	}
	return renewed, err
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

// renewLeaf signs a certificate in one Secret by the CA in another, or the same, unless the one there is good for a while. While a new CA is
// on its way to everybody, one of the CA before it goes on.
func (i *issuer) renewLeaf(secret, own *corev1.Secret, now time.Time) (string, error) {
	ca, cert, key := own.Data, secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
	if ok, _ := rotator.ValidCert(ca[keyCA], cert, key, i.DNSName, i.ExtKeyUsages, now.Add(ahead)); ok {
		return "", nil
	}
	if ok, _ := rotator.ValidCert(ca[keyPreviousCA], cert, key, i.DNSName, i.ExtKeyUsages, now); ok && isNew(ca[keyCA], now) {
		return "", nil
	}
	signer, err := parseCA(ca[keyCA], ca[keyCAKey])
	if err != nil {
		return "", err
	}
	return "certificate", i.sign(secret, signer, now)
}

// isNew says whether a CA has been made so lately that not everybody knows it.
func isNew(ca []byte, now time.Time) bool {
	block, _ := pem.Decode(ca)
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	return err == nil && now.Before(cert.NotBefore.Add(time.Hour+spread)) // made an hour after its NotBefore
}
