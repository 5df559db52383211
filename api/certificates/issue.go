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

// Keys of the Secret beside Kubernetes' own tls.crt and tls.key.
const (
	keyCA         = "ca.crt"
	keyCAKey      = "ca.key"
	keyPreviousCA = "ca-previous.crt"
)

// How long certificates live, and how long before their end they are replaced.
const (
	caLife   = 10 * 365 * 24 * time.Hour
	certLife = 90 * 24 * time.Hour
	ahead    = 30 * 24 * time.Hour
)

// issuer makes certificates for the names of one Service.
type issuer struct{ rotator.CertRotator }

func (k *Keeper) issuer() *issuer {
	host := k.Service + "." + k.Secret.Namespace + ".svc"
	return &issuer{rotator.CertRotator{
		CAName:         k.Service + "-ca",
		CAOrganization: "virtflow",
		DNSName:        host,
		ExtraDNSNames:  []string{host + ".cluster.local"},
		ExtKeyUsages:   &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}}
}

// renew puts a new CA or certificate into a Secret when the one there is missing, broken, for another name, or about to end. It says
// which, or "".
func (i *issuer) renew(secret *corev1.Secret, now time.Time) (string, error) {
	d := secret.Data
	if ok, _ := rotator.ValidCert(d[keyCA], d[keyCA], d[keyCAKey], i.CAName, nil, now.Add(ahead)); !ok {
		ca, err := i.CreateCACert(now.Add(-time.Hour), now.Add(caLife))
		if err != nil {
			return "", fmt.Errorf("making a CA: %w", err)
		}
		previous := d[keyCA]
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[keyPreviousCA] = previous
		secret.Data[keyCA], secret.Data[keyCAKey] = ca.CertPEM, ca.KeyPEM
		return "ca", i.sign(secret, ca, now)
	}
	if ok, _ := rotator.ValidCert(d[keyCA], d[corev1.TLSCertKey], d[corev1.TLSPrivateKeyKey], i.DNSName, i.ExtKeyUsages, now.Add(ahead)); ok {
		return "", nil
	}
	ca, err := parseCA(d[keyCA], d[keyCAKey])
	if err != nil {
		return "", err
	}
	return "certificate", i.sign(secret, ca, now)
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

// bundleOf is every CA to trust: the current one, and the one before it for replicas that still use it.
func bundleOf(secret *corev1.Secret) []byte {
	return bytes.Join([][]byte{secret.Data[keyCA], secret.Data[keyPreviousCA]}, nil)
}
