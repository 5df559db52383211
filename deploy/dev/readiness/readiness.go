package readiness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/virtflow/virtflow/deploy/dev/layout"
)

// startTime is the time after which a wait reports that it is still waiting, and continues.
const startTime = time.Minute

// Wait waits until the apiserver is ready.
func Wait(ctx context.Context, l layout.Layout) error {
	return Poll(ctx, "kube-apiserver", func(ctx context.Context) error { return APIServer(ctx, l) })
}

// Poll asks until there is no error.
func Poll(ctx context.Context, what string, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait for %s: %w", what, ctx.Err()), err)
		case <-tick.C:
		}
	}
}

// APIServer checks once whether the apiserver is ready. That includes its built-in roles, without which only
// administrators may do anything. The check needs no credentials.
func APIServer(ctx context.Context, l layout.Layout) error {
	ca, err := os.ReadFile(l.PKI("kubernetes", "ca.crt"))
	if err != nil {
		return fmt.Errorf("read the authority: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, layout.APIServer+"/readyz", http.NoBody)
	if err != nil {
		return fmt.Errorf("ask the apiserver: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the apiserver: %w", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the apiserver is not ready: %s", resp.Status)
	}
	return nil
}
