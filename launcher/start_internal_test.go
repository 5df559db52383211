package launcher

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/virtflow/virtflow/internal/kvm"
	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/lifecycle"
)

// TestDecideKVM: a start on a busy node may be tried again, and emulation never replaces KVM where it is not allowed.
func TestDecideKVM(t *testing.T) {
	for name, c := range map[string]struct {
		found error
		allow bool
		use   bool
		code  codes.Code
	}{
		"works":                      {nil, false, true, codes.OK},
		"works, emulation allowed":   {nil, true, true, codes.OK},
		"silent":                     {kvm.ErrNoAnswer, false, false, codes.Unavailable},
		"silent, emulation allowed":  {kvm.ErrNoAnswer, true, false, codes.OK},
		"missing":                    {os.ErrNotExist, false, false, codes.FailedPrecondition},
		"missing, emulation allowed": {os.ErrNotExist, true, false, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(Config{AllowEmulation: c.allow}, nil, Tools{
				KVM: func(context.Context, time.Duration) error { return c.found },
			}, zerolog.Nop())
			use, err := l.decideKVM(t.Context())
			require.Equal(t, c.use, use)
			if c.code == codes.OK {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.code, startErrorCode(err), err)
		})
	}
}

// TestCallersShareOneAttempt: they are answered once none is in progress.
func TestCallersShareOneAttempt(t *testing.T) {
	for state := range lifecycle.Table() {
		s := newStarting()
		s.err = errOldWorker
		answers := []chan error{make(chan error, 1), make(chan error, 1)}
		s.waiting = append(s.waiting, answers...)
		s.answer(state)
		switch state {
		case lifecycle.Starting, lifecycle.Abandoning, lifecycle.AbandoningNow:
			require.Equal(t, answers, s.waiting, state)
		default:
			require.Empty(t, s.waiting, state)
			for _, a := range answers {
				require.Equal(t, errOldWorker, <-a, state)
			}
		}
	}
}

// TestRetriesWhileDeviceIsMissing: a start is retried both where a guest starts and where one is received.
func TestRetriesWhileDeviceIsMissing(t *testing.T) {
	err := fmt.Errorf("preparing volume data: %w", disk.ErrNotGiven)
	require.Equal(t, codes.Unavailable, startErrorCode(err))
	require.Equal(t, codes.Unavailable, receiveCode(err))
	require.Equal(t, codes.InvalidArgument, startErrorCode(&disk.Error{Volume: "data"}))
}
