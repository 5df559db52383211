package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"
)

// TestRetriesFollow: without the CRD of the KubeVirt object the process serves all the same.
func TestRetriesFollow(t *testing.T) {
	backoff := wait.Backoff{Duration: time.Microsecond, Factor: 2, Steps: 2, Cap: time.Millisecond}
	tries := 0
	retryFollow(t.Context(), func(context.Context) error {
		if tries++; tries < 5 {
			return errors.New("no matches for kind KubeVirt")
		}
		return nil
	}, backoff, zerolog.Nop())
	require.Equal(t, 5, tries)
	ctx, cancel := context.WithCancel(t.Context())
	retryFollow(ctx, func(context.Context) error {
		cancel()
		return ctx.Err()
	}, backoff, zerolog.Nop())
}
