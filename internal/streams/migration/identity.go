package migration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"time"
)

const (
	// clockSkew is how far the clocks of two nodes may differ for a certificate that was just made. The other side
	// checks the key, so an earlier begin of validity gives no more access than the key does.
	clockSkew = 24 * time.Hour
	// maxLife bounds the lifetime of a certificate: a migration may take a day, and may be held for another before it
	// begins.
	maxLife = 49 * time.Hour
)

// Fingerprint is the SHA-256 of a public key (SubjectPublicKeyInfo) in lower-case hexadecimal digits.
type Fingerprint string

var fingerprint = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Valid reports whether it has the form of a fingerprint.
func (f Fingerprint) Valid() bool { return fingerprint.MatchString(string(f)) }

// migrationUID is the form of a VirtualMachineInstanceMigration's UID, which becomes part of a server name.
var migrationUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ValidUID reports whether uid has the form of a migration's UID.
func ValidUID(uid string) bool { return migrationUID.MatchString(uid) }

// Identity is one side of one migration. Its key is in memory only.
type Identity struct {
	// Expires is when the certificate expires.
	Expires time.Time

	uid         string
	certificate tls.Certificate
}

// NewIdentity makes a key for a side of a migration, with a certificate that expires at that time.
func NewIdentity(uid string, expires time.Time) (*Identity, error) {
	if !ValidUID(uid) {
		return nil, fmt.Errorf("%.64q is not the UID of a migration", uid)
	}
	now := time.Now()
	if expires.After(now.Add(maxLife)) {
		return nil, fmt.Errorf("a certificate until %s would live longer than %s", expires.UTC().Format(time.RFC3339),
			maxLife)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key for a migration: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: uid}, DNSNames: []string{uid + domain},
		NotBefore: now.Add(-clockSkew), NotAfter: expires, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate for a migration: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making a certificate for a migration: %w", err)
	}
	return &Identity{Expires: leaf.NotAfter, uid: uid,
		certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}, nil
}

// Fingerprint returns what the other side needs to know this one.
func (i *Identity) Fingerprint() Fingerprint { return fingerprintOf(i.certificate.Leaf) }

func fingerprintOf(c *x509.Certificate) Fingerprint {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return Fingerprint(hex.EncodeToString(sum[:]))
}

// Server returns the TLS configuration of the target's side: the client must have the key with this fingerprint.
func (i *Identity) Server(client Fingerprint) *tls.Config {
	c := i.config(client)
	c.ClientAuth = tls.RequireAnyClientCert // config checks which
	c.SessionTicketsDisabled = true         // each connection presents its certificate
	return c
}

// client returns the TLS configuration of the source's side.
func (i *Identity) client(server Fingerprint) *tls.Config {
	c := i.config(server)
	c.ServerName = i.uid + domain
	c.InsecureSkipVerify = true // there is no authority: config checks the very key
	return c
}

func (i *Identity) config(other Fingerprint) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.certificate}, NextProtos: []string{protocol},
		// All channels carry bulk data: no record is made short so that its first byte arrives sooner.
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.NegotiatedProtocol != protocol {
				return errors.New("the other side does not support " + protocol)
			}
			return check(s.PeerCertificates, i.uid, other)
		},
	}
}

// check refuses a certificate that is not that of the other side of this migration, or has expired. The handshake
// proves that the other side has the key.
func check(chain []*x509.Certificate, uid string, want Fingerprint) error {
	if len(chain) != 1 {
		return fmt.Errorf("the other side presented %d certificates instead of one", len(chain))
	}
	c := chain[0]
	if subtle.ConstantTimeCompare([]byte(fingerprintOf(c)), []byte(want)) != 1 {
		return errors.New("the other side's key does not match the migration's fingerprint")
	}
	if err := c.VerifyHostname(uid + domain); err != nil {
		return fmt.Errorf("the certificate is of another migration: %w", err)
	}
	if now := time.Now(); now.Before(c.NotBefore) || now.After(c.NotAfter) {
		return fmt.Errorf("the certificate is good from %s to %s only", c.NotBefore.UTC().Format(time.RFC3339),
			c.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
