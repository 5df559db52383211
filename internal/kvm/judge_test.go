package kvm

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script answers one trial after the other, repeats the last answer, and records their limits.
type script struct {
	answers []error
	limits  []time.Duration
}

func (s *script) try(_ context.Context, limit time.Duration) error {
	s.limits = append(s.limits, limit)
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return answer
}

func TestJudgeGivesBusyMachineMoreTime(t *testing.T) {
	absent := errors.New("open /dev/kvm: no such file or directory")
	for name, c := range map[string]struct {
		answers []error
		want    error
		trials  int
	}{
		"works":               {[]error{nil}, nil, 1},
		"busy at first":       {[]error{ErrNoAnswer, ErrNoAnswer, nil}, nil, 3},
		"hangs":               {[]error{ErrNoAnswer}, ErrNoAnswer, 4},
		"is not there":        {[]error{absent}, absent, 1},
		"goes away meanwhile": {[]error{ErrNoAnswer, absent}, absent, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{answers: c.answers}
			require.Equal(t, c.want, Judge(t.Context(), s.try))
			require.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second,
				16 * time.Second}[:c.trials], s.limits)
		})
	}
}

func TestWatchReportsEachChange(t *testing.T) {
	absent := errors.New("open /dev/kvm: no such file or directory")
	s := &script{answers: []error{absent, nil, nil, ErrNoAnswer, ErrNoAnswer, ErrNoAnswer, ErrNoAnswer, ErrNoAnswer,
		nil}}
	var changes []error
	var pauses []time.Duration
	ctx, stop := context.WithCancel(t.Context())
	watch(ctx, s.try, absent, func(err error) {
		if changes = append(changes, err); len(changes) == 3 {
			stop()
		}
	}, func(d time.Duration) <-chan time.Time {
		pauses = append(pauses, d)
		now := make(chan time.Time, 1)
		now <- time.Time{}
		return now
	})
	require.Equal(t, []error{nil, ErrNoAnswer, nil}, changes)
	require.Equal(t, []time.Duration{recheck, recheck, recheck, recheck, 2 * time.Second}, pauses[:5])
}

func TestTry(t *testing.T) {
	never := func(*exec.Cmd) error { panic("nothing is to be run") }
	require.ErrorIs(t, Try(t.Context(), "x", filepath.Join(t.TempDir(), "kvm"), time.Second, never), os.ErrNotExist)
	info, err := os.ReadFile("/proc/cpuinfo")
	require.NoError(t, err)
	if !hasVirtualization(string(info)) {
		require.ErrorContains(t, Try(t.Context(), "x", os.DevNull, time.Second, never), "neither vmx nor svm")
		return
	}
	run := func(command *exec.Cmd) error { return command.Run() }
	require.NoError(t, Try(t.Context(), "/bin/true", os.DevNull, time.Minute, run))
	require.ErrorContains(t, Try(t.Context(), "/bin/false", os.DevNull, time.Minute, run), "running a virtual CPU")
	require.ErrorIs(t, Try(t.Context(), "/bin/sleep", os.DevNull, 0, run), ErrNoAnswer)
}
