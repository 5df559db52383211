package temporal

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/tlsfiles"
	"github.com/virtflow/virtflow/testsuite/temporal/trial"
)

func TestChecksTLSFiles(t *testing.T) {
	replace := func(file, by string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			content, err := os.ReadFile(filepath.Join(dir, by))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), content, 0o600))
		}
	}
	for name, test := range map[string]struct {
		address string
		spoil   func(t *testing.T, dir string)
		says    string // "": valid
	}{
		"loopback":        {address: "127.0.0.1:7233"},
		"every address":   {address: "0.0.0.0:7233"},
		"foreign address": {address: "10.210.0.1:7233", says: "must be made for 10.210.0.1"},
		"no CA": {address: "127.0.0.1:7233", says: "reading the CA", spoil: func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "ca.crt")))
		}},
		"empty CA": {address: "127.0.0.1:7233", says: "holds no certificate", spoil: replace("ca.crt", "client.key")},
		"wrong key": {address: "127.0.0.1:7233", says: "reading the client certificate",
			spoil: replace("client.key", "server.key")},
		"client certificate as the server's": {address: "127.0.0.1:7233", says: "valid for serverAuth",
			spoil: func(t *testing.T, dir string) {
				replace("server.crt", "client.crt")(t, dir)
				replace("server.key", "client.key")(t, dir)
			}},
		"another CA": {address: "127.0.0.1:7233", says: "signed by ca.crt", spoil: func(t *testing.T, dir string) {
			other := t.TempDir()
			require.NoError(t, trial.WriteCertificates(other))
			content, err := os.ReadFile(filepath.Join(other, "ca.crt"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), content, 0o600))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, trial.WriteCertificates(dir))
			if test.spoil != nil {
				test.spoil(t, dir)
			}
			err := tlsfiles.Check(dir, netip.MustParseAddrPort(test.address))
			if test.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.says)
		})
	}
}
