package virtiofs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/virtflow/virtflow/launcher/reaper"
)

const (
	// startLimit is how long a daemon may take until QEMU can connect to it.
	startLimit = 10 * time.Second
	lookEvery  = 20 * time.Millisecond
	// farewell is how long is waited for what a daemon that has ended has written.
	farewell = time.Second
)

// Daemons are the processes. Not safe for concurrent use: there is one start of a guest at a time.
type Daemons struct {
	program   string
	processes *reaper.Reaper
	log       zerolog.Logger
	running   []daemon
}

type daemon struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once it has
}

// New makes one that runs this program, a virtiofsd.
func New(program string, processes *reaper.Reaper, log zerolog.Logger) *Daemons {
	return &Daemons{program: program, processes: processes, log: log}
}

// Run has a fresh daemon for each file system, and returns once QEMU can connect to all of them. Each ends by itself
// with the QEMU that has connected; what is left of an earlier start is ended here.
func (d *Daemons) Run(ctx context.Context, list []FileSystem) error {
	for _, old := range d.running {
		_ = old.cmd.Process.Kill() // it may have ended
		<-old.ended
	}
	d.running = nil
	for _, s := range list {
		if err := d.start(ctx, s); err != nil {
			return fmt.Errorf("virtiofsd for volume %s: %w", s.Name, err)
		}
	}
	return nil
}

func (d *Daemons) start(ctx context.Context, s FileSystem) error {
	if err := os.Remove(s.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the socket of an earlier one: %w", err)
	}
	// It is confined by its container, and has no privileges to confine itself further.
	cmd := exec.Command(d.program, "--socket-path="+s.Socket, "--shared-dir="+s.Directory, //nolint:gosec // the image's
		"--sandbox=none", "--cache=auto", "--log-level=warn")
	// Its own process group: signals to the launcher's are not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = farewell
	output, input := io.Pipe()
	cmd.Stdout, cmd.Stderr = input, input
	var copied sync.WaitGroup
	copied.Go(func() { d.copyLog(s.Name, output) })
	if err := d.processes.Start(cmd); err != nil {
		_ = input.Close()
		return err
	}
	began := daemon{cmd: cmd, ended: make(chan struct{})}
	d.running = append(d.running, began)
	go func() {
		err := d.processes.Wait(cmd)
		_ = input.Close()
		copied.Wait()
		d.log.Info().Str("volume", s.Name).AnErr("err", err).Msg("virtiofsd has ended")
		close(began.ended)
	}()
	return wait.PollUntilContextTimeout(ctx, lookEvery, startLimit, true, func(context.Context) (bool, error) {
		select {
		case <-began.ended:
			return false, errors.New("it ended at once; its messages are in this container's log")
		default:
		}
		_, err := os.Stat(s.Socket)
		return err == nil, nil //nolint:nilerr // it is not there yet
	})
}

// copyLog repeats what a daemon writes in the launcher's log.
func (d *Daemons) copyLog(volume string, from io.Reader) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		d.log.Warn().Str("volume", volume).Msg("virtiofsd: " + lines.Text())
	}
	_, _ = io.Copy(io.Discard, from) // after a line that is too long for the log
}
