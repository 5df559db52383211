package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
)

// ServerName is the name by which the processes of the development server know each other's certificate.
const ServerName = "localhost"

// Check returns an error if the certificates in dir do not suit a server that listens on the given address: one
// sentence now instead of a refused handshake later.
func Check(dir string, address netip.AddrPort) error {
	roots, err := roots(dir)
	if err != nil {
		return err
	}
	server, err := leaf(dir, "server")
	if err != nil {
		return err
	}
	client, err := leaf(dir, "client")
	if err != nil {
		return err
	}
	// The services call each other with the server certificate, so it has both uses.
	for _, want := range []struct {
		file  string
		cert  *x509.Certificate
		usage x509.ExtKeyUsage
		words string
	}{
		{"server.crt", server, x509.ExtKeyUsageServerAuth, "serverAuth"},
		{"server.crt", server, x509.ExtKeyUsageClientAuth, "clientAuth"},
		{"client.crt", client, x509.ExtKeyUsageClientAuth, "clientAuth"},
	} {
		if _, err := want.cert.Verify(
			x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{want.usage}}); err != nil {
			return fmt.Errorf("%s must be valid for %s and signed by ca.crt: %w", filepath.Join(dir, want.file),
				want.words, err)
		}
	}
	names := []string{ServerName, "127.0.0.1"}
	if !address.Addr().IsUnspecified() {
		names = append(names, address.Addr().String())
	}
	for _, name := range names {
		if err := server.VerifyHostname(name); err != nil {
			return fmt.Errorf("%s must be made for %s: %w", filepath.Join(dir, "server.crt"), name, err)
		}
	}
	return nil
}

// Client is the TLS configuration of a client with the certificate in dir.
func Client(dir string) (*tls.Config, error) {
	roots, err := roots(dir)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		RootCAs:      roots,
		Certificates: []tls.Certificate{pair},
		ServerName:   ServerName,
	}, nil
}

func roots(dir string) (*x509.CertPool, error) {
	path := filepath.Join(dir, "ca.crt")
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading the CA: %s holds no certificate in PEM form", path)
	}
	return pool, nil
}

func leaf(dir, name string) (*x509.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, fmt.Errorf("reading the %s certificate: %w", name, err)
	}
	if pair.Leaf == nil {
		return nil, errors.New("reading the " + name + " certificate: no certificate in the file")
	}
	return pair.Leaf, nil
}
