package console_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/console"
)

type lines struct {
	mu      sync.Mutex
	all     []string
	dropped int
}

func (l *lines) emit(line string, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
	l.dropped += dropped
}

func (l *lines) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

func TestEmitsLinesAndKeepsFileSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var got lines
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- console.Follow(ctx, path, got.emit) }()

	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = file.WriteString("\x1b[2J\x1b[1;31mhello\x1b[0m\r\n" + strings.Repeat("x", 3*console.LineLimit) + "\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return got.len() == 2 }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, "hello", got.all[0])
	require.Len(t, got.all[1], console.LineLimit)

	// A guest that floods: far more than the file may hold, and more lines than may be repeated.
	for i := range 40 * console.FileLimit / (1 << 20) {
		_, err = file.WriteString(strings.Repeat(fmt.Sprintf("flood %d\n", i), 10000))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() <= console.FileLimit
	}, 10*time.Second, 10*time.Millisecond)
	stop()
	require.NoError(t, <-done)
	require.Less(t, len(got.all), 2*console.LinesAtOnce)
	require.NoError(t, file.Close())
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "a\tb": "a b", "\x1b]0;title\x07text": "text", "\x1b[?25ltext\x1b[0m": "text",
		"bad \xff utf8": "bad ? utf8",
		"\x1b":          "", "\x1b[": "", "null\x00byte": "nullbyte", "\x1bctext": "text",
	} {
		require.Equal(t, want, console.Printable([]byte(in)), "%q", in)
	}
}
