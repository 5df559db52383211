package temporalclient

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// TestPlaintextMustBeRequested: a connection without TLS must be requested explicitly, because everyone on its path
// controls the machines.
func TestPlaintextMustBeRequested(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		want    string // in the error; empty: none
	}{
		"nothing":                {Options{}, "--temporal-plaintext for a Temporal without TLS"},
		"asked for":              {Options{Plaintext: true}, ""},
		"with an API key":        {Options{Plaintext: true, APIKeyFile: "key"}, "--temporal-plaintext excludes"},
		"with a CA":              {Options{Plaintext: true, TLSCA: "ca.crt"}, "--temporal-plaintext excludes"},
		"an API key":             {Options{APIKeyFile: "key"}, ""},
		"a key without its file": {Options{TLSKey: "tls.key"}, "go together"},
	} {
		t.Run(name, func(t *testing.T) {
			test.options.Address = "127.0.0.1:7233"
			check := func(err error) {
				if test.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, test.want)
				}
			}
			_, err := test.options.ClientOptions(zerolog.Nop(), nil, "test")
			check(err)
			c, err := test.options.Connect()
			check(err)
			if err == nil {
				require.NoError(t, c.Close())
			}
		})
	}
}

// TestHasPublicRootsWithoutSystem: public roots are available without the system's certificate files, which the images
// do not have.
func TestHasPublicRootsWithoutSystem(t *testing.T) {
	const inImage = "VIRTFLOW_TEST_IN_IMAGE"
	if os.Getenv(inImage) != "" {
		roots, err := x509.SystemCertPool()
		require.NoError(t, err)
		require.False(t, roots.Equal(x509.NewCertPool()), "no certificate of a public CA would be trusted")
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inImage+"=1", "SSL_CERT_FILE=/dev/null", "SSL_CERT_DIR=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
