package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

const (
	// pause is the time between two reads of the file; each read takes all output since the last.
	pause = 250 * time.Millisecond
	// idlePause is used after a while without output, so that an idle guest costs next to nothing.
	idlePause = time.Second
	idleAfter = 20
	// FileLimit is the size from which the file is emptied. QEMU appends, so it continues at the file's new end.
	FileLimit = 1 << 20
	// LineLimit is the length to which a line is cut, in bytes.
	LineLimit = 512
	// LinesPerSecond is the limit in the long run, and LinesAtOnce that of one burst: a boot has some thousand lines.
	LinesPerSecond = 50
	LinesAtOnce    = 4000
	chunk          = 64 << 10
)

// Emit receives one line, or how many were dropped just before it.
type Emit func(line string, dropped int)

// Follow reads the file at path until ctx ends; then it reads the rest and returns. The file may appear later.
func Follow(ctx context.Context, path string, emit Emit) error {
	f := &follower{path: path, emit: emit, budget: LinesAtOnce, filled: time.Now(), buffer: make([]byte, 0, LineLimit)}
	defer f.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	idle := 0
	for {
		select {
		case <-ctx.Done():
			_, err := f.look()
			f.flush()
			return err
		case <-timer.C:
		}
		some, err := f.look()
		if err != nil {
			return err
		}
		idle++
		if some {
			idle = 0
		}
		if idle > idleAfter {
			timer.Reset(idlePause)
		} else {
			timer.Reset(pause)
		}
	}
}

type follower struct {
	path   string
	emit   Emit
	file   *os.File
	offset int64

	buffer  []byte // the line so far, cut
	budget  float64
	filled  time.Time
	dropped int
}

func (f *follower) close() {
	if f.file != nil {
		_ = f.file.Close()
	}
}

// look reads new output, and empties the file when it has grown too large.
func (f *follower) look() (some bool, err error) {
	if f.file == nil {
		file, err := os.OpenFile(f.path, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("opening the console's log: %w", err)
		}
		f.file = file
	}
	block := make([]byte, chunk)
	for read := 0; read < 2*FileLimit; {
		n, err := f.file.ReadAt(block, f.offset)
		f.offset += int64(n)
		read += n
		some = some || n > 0
		f.take(block[:n])
		if f.offset > FileLimit {
			if err := f.file.Truncate(0); err != nil {
				return some, fmt.Errorf("truncating the console's log: %w", err)
			}
			f.offset = 0
		}
		if errors.Is(err, io.EOF) {
			return some, nil
		}
		if err != nil {
			return some, fmt.Errorf("reading the console's log: %w", err)
		}
	}
	return some, nil
}

func (f *follower) take(b []byte) {
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		part := b
		if end >= 0 {
			part = b[:end]
		}
		if free := LineLimit - len(f.buffer); free > 0 {
			f.buffer = append(f.buffer, part[:min(free, len(part))]...)
		}
		if end < 0 {
			return
		}
		f.flush()
		b = b[end+1:]
	}
}

func (f *follower) flush() {
	line := Printable(f.buffer)
	f.buffer = f.buffer[:0]
	if line == "" {
		return
	}
	now := time.Now()
	f.budget = min(LinesAtOnce, f.budget+now.Sub(f.filled).Seconds()*LinesPerSecond)
	f.filled = now
	if f.budget < 1 {
		f.dropped++
		return
	}
	f.budget--
	f.emit(line, f.dropped)
	f.dropped = 0
}

// Printable returns the text of a terminal's line: without escape sequences and control characters, as valid UTF-8.
func Printable(line []byte) string {
	out := make([]byte, 0, len(line))
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == 0x1b:
			i = skipEscape(line, i)
		case c == '\t':
			out = append(out, ' ')
		case c < 0x20 || c == 0x7f:
		default:
			out = append(out, c)
		}
	}
	return string(bytes.ToValidUTF8(bytes.TrimSpace(out), []byte("?")))
}

// skipEscape returns the index of an escape sequence's last byte. It handles CSI (ESC [ … letter), OSC (ESC ] … BEL)
// and short sequences.
func skipEscape(line []byte, i int) int {
	if i+1 >= len(line) {
		return i
	}
	switch line[i+1] {
	case '[':
		for j := i + 2; j < len(line); j++ {
			if line[j] >= 0x40 && line[j] <= 0x7e {
				return j
			}
		}
		return len(line) - 1
	case ']':
		for j := i + 2; j < len(line); j++ {
			if line[j] == 0x07 {
				return j
			}
		}
		return len(line) - 1
	default:
		return i + 1
	}
}
