package virtiofs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/launcher/reaper"
)

// farewell is how long the launcher waits for the output of a daemon that has ended.
const farewell = time.Second

// Daemons runs the virtiofsd processes. It is not safe for concurrent use: there is one start of a guest at a time.
type Daemons struct {
	launcher, program string
	processes         *reaper.Reaper
	log               zerolog.Logger
	running           []daemon
}

type daemon struct {
	cmd      *exec.Cmd
	ended    chan struct{} // closed once it has ended
	replaced chan struct{} // closed when another one replaces it
}

// New returns Daemons that run program, a virtiofsd, by way of the launcher's Command.
func New(launcher, program string, processes *reaper.Reaper, log zerolog.Logger) *Daemons {
	return &Daemons{launcher: launcher, program: program, processes: processes, log: log}
}

// Run starts a new daemon for each file system; QEMU can connect to all of them once it returns. Each ends by itself
// with the QEMU that has connected, and Run ends those of an earlier start. It calls lost for each daemon that has
// ended by itself, at any time, and from several goroutines.
func (d *Daemons) Run(list []FileSystem, lost func(volume string)) error {
	for _, old := range d.running {
		close(old.replaced)
		_ = old.cmd.Process.Kill() // it may have ended
		<-old.ended
	}
	d.running = nil
	if len(list) == 0 {
		return nil
	}
	if err := confinable(); err != nil {
		return err
	}
	for _, s := range list {
		if err := d.start(s, lost); err != nil {
			return fmt.Errorf("virtiofsd for volume %s: %w", s.Name, err)
		}
	}
	return nil
}

// start starts a daemon with a socket that listens already, so that QEMU need not wait for it.
func (d *Daemons) start(s FileSystem, lost func(volume string)) error {
	if err := os.Remove(s.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the socket of an earlier daemon: %w", err)
	}
	socket, err := listen(s.Socket)
	if err != nil {
		return err
	}
	defer socket.Close()
	cmd := exec.Command(d.launcher, commandName,
		"--program="+d.program, "--shared-dir="+s.Directory)
	cmd.ExtraFiles = []*os.File{socket}
	// Its own process group, so that it does not get signals to the launcher's.
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
	started := daemon{cmd: cmd, ended: make(chan struct{}), replaced: make(chan struct{})}
	d.running = append(d.running, started)
	go func() {
		err := d.processes.Wait(cmd)
		_ = input.Close()
		copied.Wait()
		d.log.Warn().Str("volume", s.Name).AnErr("err", err).Msg("observed end of virtiofsd")
		close(started.ended)
		select {
		case <-started.replaced:
		default:
			lost(s.Name)
		}
	}()
	return nil
}

// listen opens a Unix socket, whose file stays when the listener is closed: the daemon continues with it.
func listen(path string) (*os.File, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("opening its socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	f, err := l.File()
	if err != nil {
		return nil, fmt.Errorf("passing on its socket: %w", err)
	}
	return f, nil
}

// copyLog copies a daemon's output to the launcher's log.
func (d *Daemons) copyLog(volume string, from io.Reader) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		d.log.Warn().Str("volume", volume).Msg("virtiofsd: " + lines.Text())
	}
	_, _ = io.Copy(io.Discard, from) // after a line that is too long for the log
}
