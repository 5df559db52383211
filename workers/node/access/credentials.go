package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/virtflow/virtflow/internal/streams/wire"
)

const (
	// lookInterval is the time between checks, at a handshake, whether the kubelet has put newer files into the
	// directory.
	lookInterval = 2 * time.Second
	// largestFile is far above what a bundle of a few certificates takes, in bytes.
	largestFile = 256 << 10
)

// credentials are a directory with tls.crt, tls.key and ca.crt: the Secret that the API server keeps, as a volume.
type credentials struct {
	dir string

	mu     sync.Mutex
	looked time.Time
	config *tls.Config
}

// get implements tls.Config.GetConfigForClient. Files that do not fit together, as in the middle of a change, leave the
// ones before in use.
func (c *credentials) get(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.config != nil && time.Since(c.looked) < lookInterval {
		return c.config, nil
	}
	config, err := c.load()
	if err == nil {
		c.config = config
	}
	c.looked = time.Now()
	if c.config == nil {
		return nil, fmt.Errorf("there is no certificate yet: %w", err)
	}
	return c.config, nil
}

func (c *credentials) load() (*tls.Config, error) {
	var files [3][]byte
	for i, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		data, err := readFile(filepath.Join(c.dir, name))
		if err != nil {
			return nil, err
		}
		files[i] = data
	}
	pair, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		return nil, fmt.Errorf("loading the certificate in %s: %w", c.dir, err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(files[2]) {
		return nil, fmt.Errorf("loading the CA in %s: it has no certificate", c.dir)
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{pair},
		ClientAuth:             tls.RequireAndVerifyClientCert,
		ClientCAs:              clients,
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true, // each connection shows its certificate
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.VerifiedChains) == 0 {
				return errors.New("the client has no certificate")
			}
			return s.PeerCertificates[0].VerifyHostname(wire.ClientName)
		},
	}, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, largestFile))
	if err != nil {
		return nil, fmt.Errorf("reading a certificate: %w", err)
	}
	return data, nil
}
