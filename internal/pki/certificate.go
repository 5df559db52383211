package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Request describes a certificate.
type Request struct {
	// Name is the name of its files.
	Name string
	// CommonName and Organizations are its subject: to Kubernetes, a user and its groups.
	CommonName    string
	Organizations []string
	// Names and IPs are the addresses of a server; with neither, the certificate is for clients only.
	Names []string
	IPs   []string
	// ClientToo lets a server use it as a client as well.
	ClientToo bool
}

func (r Request) template() (*x509.Certificate, error) {
	t := &x509.Certificate{
		Subject:  pkix.Name{CommonName: r.CommonName, Organization: r.Organizations},
		KeyUsage: x509.KeyUsageDigitalSignature,
		DNSNames: r.Names,
	}
	for _, ip := range r.IPs {
		parsed := net.ParseIP(ip)
		if parsed == nil {
			return nil, fmt.Errorf("certificate %s: %q is not an IP address", r.Name, ip)
		}
		if v4 := parsed.To4(); v4 != nil {
			parsed = v4
		}
		t.IPAddresses = append(t.IPAddresses, parsed)
	}
	server := len(r.Names)+len(r.IPs) > 0
	if server {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if !server || r.ClientToo {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	return t, nil
}

// Ensure issues the certificate unless a matching one exists that is still good for a while.
func (a *Authority) Ensure(r Request) error {
	want, err := r.template()
	if err != nil {
		return err
	}
	have, _, err := readPair(a.dir, r.Name)
	if err == nil && a.isUsable(have, want) {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the key of %s: %w", r.Name, err)
	}
	cert, err := a.sign(want, a.cert, &key.PublicKey, certificateLife)
	if err != nil {
		return err
	}
	return writePair(a.dir, r.Name, cert, key)
}

// isUsable reports whether an existing certificate matches the requested one.
func (a *Authority) isUsable(have, want *x509.Certificate) bool {
	return have.CheckSignatureFrom(a.cert) == nil &&
		time.Now().Add(renewBefore).Before(have.NotAfter) &&
		have.Subject.CommonName == want.Subject.CommonName &&
		slices.Equal(have.Subject.Organization, want.Subject.Organization) &&
		slices.Equal(have.DNSNames, want.DNSNames) &&
		slices.EqualFunc(have.IPAddresses, want.IPAddresses, net.IP.Equal) &&
		slices.Equal(have.ExtKeyUsage, want.ExtKeyUsage)
}

// EnsureSigningKey makes the key pair that signs service-account tokens:
// NAME.key and NAME.pub.
func EnsureSigningKey(dir, name string) error {
	private, public := filepath.Join(dir, name+".key"), filepath.Join(dir, name+".pub")
	if _, err := os.Stat(public); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for the signing key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the signing key: %w", err)
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the signing key: %w", err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("encode the public key: %w", err)
	}
	if err := WriteFile(private, encode("PRIVATE KEY", privateDER), 0o600); err != nil {
		return err
	}
	// Written last: if it exists, the pair is complete.
	return WriteFile(public, encode("PUBLIC KEY", publicDER), 0o644)
}
