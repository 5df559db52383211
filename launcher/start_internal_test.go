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
)

// TestJudgeKVM: a start on a busy node may be tried again, and nothing is emulated that was to have KVM.
func TestJudgeKVM(t *testing.T) {
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
			use, err := l.judgeKVM(t.Context())
			require.Equal(t, c.use, use)
			if c.code == codes.OK {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.code, codeOf(err), err)
		})
	}
}

// TestADeviceThatIsNotGivenYetIsTriedAgain, where a guest starts and where one is received.
func TestADeviceThatIsNotGivenYetIsTriedAgain(t *testing.T) {
	err := fmt.Errorf("preparing volume data: %w", disk.ErrNotGiven)
	require.Equal(t, codes.Unavailable, codeOf(err))
	require.Equal(t, codes.Unavailable, receiveCode(err))
	require.Equal(t, codes.InvalidArgument, codeOf(&disk.Error{Volume: "data"}))
}
