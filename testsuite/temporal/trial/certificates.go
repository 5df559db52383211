package trial

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// WriteCertificates creates a CA, the certificates that the server needs, and one with its role for each of virtflow's
// processes, valid for an hour, and writes them into dir.
func WriteCertificates(dir string) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the CA's key: %w", err)
	}
	ca := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "virtflow-temporal trial CA"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	if err := write(dir, "ca", ca, caKey, ca, caKey); err != nil {
		return err
	}
	for name, usages := range map[string][]x509.ExtKeyUsage{
		"server":         {x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		"client":         {x509.ExtKeyUsageClientAuth},
		"control-worker": {x509.ExtKeyUsageClientAuth},
		"crdwatch":       {x509.ExtKeyUsageClientAuth},
		"api-server":     {x509.ExtKeyUsageClientAuth},
		"node-gateway":   {x509.ExtKeyUsageClientAuth},
	} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return fmt.Errorf("making the %s key: %w", name, err)
		}
		leaf := &x509.Certificate{
			Subject:     pkix.Name{CommonName: name},
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: usages,
		}
		switch name {
		case "client":
		case "server":
			leaf.DNSNames, leaf.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
		default:
			leaf.Subject.Organization = []string{"virtflow:" + name}
		}
		if err := write(dir, name, leaf, key, ca, caKey); err != nil {
			return err
		}
	}
	return nil
}

// write signs the certificate with the parent and writes it and its key.
func write(
	dir, name string, cert *x509.Certificate, key *ecdsa.PrivateKey, parent *x509.Certificate,
	parentKey *ecdsa.PrivateKey,
) error {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return fmt.Errorf("making a serial number: %w", err)
	}
	cert.SerialNumber = serial
	cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	signed, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), parentKey)
	if err != nil {
		return fmt.Errorf("signing the %s certificate: %w", name, err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("writing the %s key: %w", name, err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: signed},
		name + ".key": {Type: "EC PRIVATE KEY", Bytes: encoded},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			return fmt.Errorf("writing %s: %w", file, err)
		}
	}
	return nil
}
