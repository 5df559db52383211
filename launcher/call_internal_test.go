package launcher

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestCallReturnsAnswerOfLoop(t *testing.T) {
	calls, over := make(chan call[string]), make(chan struct{})
	refused := errors.New("refused")
	go func() {
		for c := range calls {
			if c.request == "bad" {
				c.answer <- refused
			} else {
				c.answer <- nil
			}
		}
	}()
	require.NoError(t, ask(t.Context(), over, calls, "good"))
	require.Equal(t, refused, ask(t.Context(), over, calls, "bad"))
}

// TestCallEndsWithoutAnswer: the call ends both before the loop has received it and afterwards.
func TestCallEndsWithoutAnswer(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	over := make(chan struct{})
	require.Equal(t, codes.Canceled, status.Code(ask(gone, over, make(chan call[string]), "")))
	require.Equal(t, codes.Canceled, status.Code(ask(gone, over, make(chan call[string], 1), "")))
	close(over)
	require.ErrorIs(t, ask(t.Context(), over, make(chan call[string]), ""), errEnding)
}
