package supervise

import (
	"io"
	"os"
)

// maxLog is how large a log may grow; two of them are kept.
const maxLog = 64 << 20

// rotate puts a log that has grown large aside, keeping what the process has
// open: it appends, so that cutting the file is safe while it writes.
func rotate(path string) {
	info, err := os.Stat(path)
	if err != nil || info.Size() < maxLog {
		return
	}
	// Losing lines of a development cluster's log is better than losing the disk.
	if in, err := os.Open(path); err == nil {
		if out, err := os.Create(path + ".1"); err == nil {
			_, _ = io.Copy(out, in)
			_ = out.Close()
		}
		_ = in.Close()
	}
	_ = os.Truncate(path, 0)
}
