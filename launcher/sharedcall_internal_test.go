package launcher

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCallersShareOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sharedCall[int]
		calls := 0
		call := func() (int, error) {
			calls++
			n := calls
			time.Sleep(time.Minute)
			return n, errors.New("it broke")
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.do(short, call)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		results := make(chan int, 3)
		for range 3 {
			go func() {
				n, err := s.do(t.Context(), call)
				if err == nil {
					n = -1
				}
				results <- n
			}()
		}
		for range 3 {
			require.Equal(t, 1, <-results, "the call that was in progress")
		}
		n, err := s.do(t.Context(), call)
		require.ErrorContains(t, err, "it broke")
		require.Equal(t, 2, n, "a call that has ended is not shared")
	})
}

// TestHungCallKeepsNoCallers: they come all day, for as long as a QEMU hangs.
func TestHungCallKeepsNoCallers(t *testing.T) {
	var s sharedCall[int]
	hang := make(chan struct{})
	defer close(hang)
	call := func() (int, error) { <-hang; return 0, nil }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = s.do(ended, call)
	perCaller := testing.AllocsPerRun(1000, func() { _, _ = s.do(ended, call) })
	require.Zero(t, perCaller)
}
