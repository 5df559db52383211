package disk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// probeCPUSeconds is the CPU time that qemu-img may use to read an image, as in KubeVirt: the image is untrusted.
const probeCPUSeconds = 10

// Starter starts a command and waits for it. The launcher's implementation also reaps orphans.
type Starter interface {
	// Run is like (*exec.Cmd).Run; started is called once the process exists.
	Run(cmd *exec.Cmd, started func(pid int)) error
}

// imageInfo is the output of `qemu-img info`.
type imageInfo struct {
	Format      string `json:"format"`
	VirtualSize int64  `json:"virtual-size"`
	Backing     string `json:"backing-filename"`
	Specific    struct {
		Data struct {
			DataFile string `json:"data-file"`
		} `json:"data"`
	} `json:"format-specific"`
}

// dataFile returns the file in which a qcow2 image keeps its content outside itself; "" if there is none. Like a
// backing file, it may be any file that the launcher can read.
func (i imageInfo) dataFile() string { return i.Specific.Data.DataFile }

// qemuImg runs the qemu-img program.
type qemuImg struct {
	program     string
	run         Starter
	probeMemory uint64 // in bytes
}

func (q qemuImg) info(ctx context.Context, path string) (imageInfo, error) {
	out, err := q.output(ctx, true, "info", "--output=json", "-U", path)
	if err != nil {
		return imageInfo{}, err
	}
	var info imageInfo
	if err := json.Unmarshal(out, &info); err != nil {
		return imageInfo{}, fmt.Errorf("parsing qemu-img's output for %s: %w", path, err)
	}
	return info, nil
}

// createOverlay creates an empty qcow2 image on top of a backing file.
func (q qemuImg) createOverlay(ctx context.Context, backing, format, path string) error {
	_, err := q.output(ctx, false, "create", "-q", "-f", "qcow2", "-b", backing, "-F", format, path)
	return err
}

// createEmpty creates a qcow2 image of that size.
func (q qemuImg) createEmpty(ctx context.Context, path string, size int64) error {
	_, err := q.output(ctx, false, "create", "-q", "-f", "qcow2", path, fmt.Sprint(size))
	return err
}

func (q qemuImg) output(ctx context.Context, limited bool, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, q.program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := q.run.Run(cmd, func(pid int) {
		if !limited {
			return
		}
		for resource, n := range map[int]uint64{unix.RLIMIT_CPU: probeCPUSeconds, unix.RLIMIT_AS: q.probeMemory} {
			// A process that has ended needs no limit.
			_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: n, Max: n}, nil)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("qemu-img %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
