package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// Lifetimes. `up` renews a certificate whose remaining lifetime is less than renewBefore; the authorities outlive any
// development cluster.
const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	renewBefore     = 30 * 24 * time.Hour
	// backdate allows for a clock that is behind.
	backdate = 5 * time.Minute
)

// Authority is a certificate authority that keeps its files in one folder:
// ca.crt, ca.key, and NAME.crt and NAME.key of what it issued.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// OpenAuthority reads the authority of a folder, or makes it with that common name.
func OpenAuthority(dir, commonName string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the authority: %w", err)
	}
	a := &Authority{dir: dir}
	cert, key, err := readPair(dir, "ca")
	switch {
	case err == nil:
		a.cert, a.key = cert, key
		return a, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the authority in %s: %w; remove the folder to have it made again", dir, err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("make the key of the authority: %w", err)
	}
	if a.cert, err = a.sign(template, template, &a.key.PublicKey, authorityLife); err != nil {
		return nil, err
	}
	return a, writePair(dir, "ca", a.cert, a.key)
}

func (a *Authority) sign(
	template, parent *x509.Certificate, public *ecdsa.PublicKey, life time.Duration,
) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	now := time.Now()
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = now.Add(-backdate), now.Add(life)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return x509.ParseCertificate(der)
}

// readPair reads NAME.crt and NAME.key. It returns fs.ErrNotExist when either is missing, as after an interrupted run.
func readPair(dir, name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	keyBlock, err := readPEM(filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, nil, err
	}
	certBlock, err := readPEM(filepath.Join(dir, name+".crt"))
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(certBlock)
	if err != nil {
		return nil, nil, fmt.Errorf("parse %s.crt: %w", name, err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyBlock)
	if err != nil {
		return nil, nil, fmt.Errorf("parse %s.key: %w", name, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, fmt.Errorf("%s.key does not belong to %s.crt", name, name)
	}
	return cert, key, nil
}

func readPEM(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s has no PEM block", file)
	}
	return block.Bytes, nil
}

func writePair(dir, name string, cert *x509.Certificate, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key %s: %w", name, err)
	}
	if err := WriteFile(filepath.Join(dir, name+".key"), encode("PRIVATE KEY", der), 0o600); err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, name+".crt"), encode("CERTIFICATE", cert.Raw), 0o644)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// WriteFile writes a file whole or not at all, also over a power cut, and makes its folder.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the folder of %s: %w", path, err)
	}
	if err := renameio.WriteFile(path, data, mode, renameio.WithTempDir(filepath.Dir(path))); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
