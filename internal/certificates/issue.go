package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret besides Kubernetes' own tls.crt and tls.key.
const (
	keyCA         = "ca.crt"
	keyCAKey      = "ca.key"
	keyPreviousCA = "ca-previous.crt"
)

// Lifetimes of certificates, and how long before their end they are replaced.
const (
	caLife   = 10 * 365 * 24 * time.Hour
	certLife = 90 * 24 * time.Hour
	ahead    = 30 * 24 * time.Hour
	// spread is the time that a new CA or key has to reach every process before it is used: the kubelet takes a minute
	// or two to update a mounted ConfigMap or Secret.
	spread = time.Hour
)

// issuer issues certificates for the names of one Service.
type issuer struct{ rotator.CertRotator }

func (k *Rotator) issuer() *issuer {
	host := k.Service + "." + k.Secret.Namespace + ".svc"
	return &issuer{rotator.CertRotator{
		CAName:         k.Service + "-ca",
		CAOrganization: "virtflow",
		DNSName:        host,
		ExtraDNSNames:  []string{host + ".cluster.local"},
		ExtKeyUsages:   &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}}
}

// renew puts a new CA or certificate into a Secret when the existing one is missing, broken, for another name, or about
// to expire. It returns which, or "". A new CA signs nothing until it has reached every process.
func (i *issuer) renew(secret *corev1.Secret, now time.Time) (string, error) {
	made, err := i.renewCA(secret, now)
	if err != nil {
		return "", err
	}
	signed, err := i.renewLeaf(secret, secret, now)
	if made != "" {
		return made, err
	}
	return signed, err
}

func (i *issuer) renewCA(secret *corev1.Secret, now time.Time) (string, error) {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	d := secret.Data
	if ok, _ := rotator.ValidCert(d[keyCA], d[keyCA], d[keyCAKey], i.CAName, nil, now.Add(ahead)); ok {
		return "", nil
	}
	ca, err := i.CreateCACert(now.Add(-time.Hour), now.Add(caLife))
	if err != nil {
		return "", fmt.Errorf("making a CA: %w", err)
	}
	d[keyPreviousCA], d[keyCA], d[keyCAKey] = d[keyCA], ca.CertPEM, ca.KeyPEM
	return "ca", nil
}

// renewLeaf signs a certificate in one Secret by the CA in another, or the same, unless the existing one is still good
// for a while. While a new CA is being distributed, a certificate of the CA before it stays in use.
func (i *issuer) renewLeaf(secret, own *corev1.Secret, now time.Time) (string, error) {
	ca, cert, key := own.Data, secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
	if ok, _ := rotator.ValidCert(ca[keyCA], cert, key, i.DNSName, i.ExtKeyUsages, now.Add(ahead)); ok {
		return "", nil
	}
	if ok, _ := rotator.ValidCert(ca[keyPreviousCA], cert, key, i.DNSName, i.ExtKeyUsages, now); ok &&
		isNew(ca[keyCA], now) {
		return "", nil
	}
	signer, err := parseCA(ca[keyCA], ca[keyCAKey])
	if err != nil {
		return "", err
	}
	return "certificate", i.sign(secret, signer, now)
}

// isNew reports whether a CA is so new that it may not have reached every process.
func isNew(ca []byte, now time.Time) bool {
	block, _ := pem.Decode(ca)
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	return err == nil && now.Before(cert.NotBefore.Add(time.Hour+spread)) // made an hour after its NotBefore
}

func (i *issuer) sign(secret *corev1.Secret, ca *rotator.KeyPairArtifacts, now time.Time) error {
	cert, key, err := i.CreateCertPEM(ca, now.Add(-time.Hour), now.Add(certLife))
	if err != nil {
		return fmt.Errorf("making a certificate: %w", err)
	}
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = cert, key
	return nil
}

func parseCA(certPEM, keyPEM []byte) (*rotator.KeyPairArtifacts, error) {
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, errors.New("the CA is not PEM")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the CA's certificate: %w", err)
	}
	key, err := x509.ParsePKCS1PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the CA's key: %w", err)
	}
	return &rotator.KeyPairArtifacts{Cert: cert, Key: key, CertPEM: certPEM, KeyPEM: keyPEM}, nil
}

// bundleOf returns every CA to trust: the current one, and the one before it for replicas that still use it.
func bundleOf(secret *corev1.Secret) []byte {
	return bytes.Join([][]byte{secret.Data[keyCA], secret.Data[keyPreviousCA]}, nil)
}
