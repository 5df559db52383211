package vulnerabilities

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	entries = `{"osv":{"id":"GO-1","summary":"Crash"}}{"osv":{"id":"GO-2","summary":"Leak"}}`
	// A trace begins with the vulnerable function; a module that is only required, or imported, has none.
	library  = `{"finding":{"osv":"GO-1","fixed_version":"v1.26.9","trace":[{"module":"stdlib","version":"v1.26.8","function":"Read"},{"module":"x","function":"main"}]}}`
	called   = `{"finding":{"osv":"GO-2","fixed_version":"v0.60.0","trace":[{"module":"golang.org/x/net","version":"v0.58.0","function":"Write"}]}}`
	required = `{"finding":{"osv":"GO-2","trace":[{"module":"golang.org/x/net","version":"v0.58.0"}]}}`
)

func TestWhatIsCalledCounts(t *testing.T) {
	for name, c := range map[string]struct {
		answer, printed, failure string
	}{
		"nothing":              {entries, "No known vulnerability", ""},
		"not called":           {entries + required, "No known vulnerability", ""},
		"the standard library": {entries + library + library, "WARNING: 1 known", ""},
		"a module": {entries + required + called + library,
			"GO-2: golang.org/x/net v0.58.0: Leak (fixed in v0.60.0)", "1 known vulnerabilities of modules"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := parse([]byte(c.answer))
			require.NoError(t, err)
			var out bytes.Buffer
			err = report(found, &out)
			require.Contains(t, out.String(), c.printed)
			if c.failure == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.failure)
			}
		})
	}
	_, err := parse([]byte(`{"finding":`))
	require.Error(t, err, "half an answer is none")
}

// TestCheckThatWasNotMadeIsError: a check that was not made is an error, and does not count as one that found nothing.
func TestCheckThatWasNotMadeIsError(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOMODCACHE", t.TempDir())
	var out bytes.Buffer
	err := Check(context.Background(), t.TempDir(), "/nonexistent", &out)
	require.ErrorContains(t, err, "NOT CHECKED")
	require.ErrorContains(t, err, module)
}

func TestGovulncheckThatFailsIsError(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "govulncheck")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho no packages >&2\nexit 1\n"), 0o755))
	err := run(context.Background(), dir, program, "file:///nonexistent", &bytes.Buffer{})
	require.ErrorContains(t, err, "NOT CHECKED")
	require.ErrorContains(t, err, "no packages")
}
