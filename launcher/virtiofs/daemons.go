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

// farewell is how long is waited for what a daemon that has ended has written.
const farewell = time.Second

// Daemons are the processes. Not safe for concurrent use: there is one start of a guest at a time.
type Daemons struct {
	launcher, program string
	processes         *reaper.Reaper
	log               zerolog.Logger
	running           []daemon
}

type daemon struct {
	cmd      *exec.Cmd
	ended    chan struct{} // closed once it has
	replaced chan struct{} // closed when it is to end
}

// New makes one that runs program, a virtiofsd, by way of the launcher's Command.
func New(launcher, program string, processes *reaper.Reaper, log zerolog.Logger) *Daemons {
	return &Daemons{launcher: launcher, program: program, processes: processes, log: log}
}

// Run has a fresh daemon for each file system; QEMU can connect to all of them once it returns. Each ends by itself
// with the QEMU that has connected; what is left of an earlier start is ended here. Lost is called for each that has
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

// start gives a daemon a socket that listens already, so that nobody has to wait until it does.
func (d *Daemons) start(s FileSystem, lost func(volume string)) error {
	if err := os.Remove(s.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the socket of an earlier one: %w", err)
	}
	socket, err := listen(s.Socket)
	if err != nil {
		return err
	}
	defer socket.Close()                         //nolint:errcheck // the daemon has its own
	cmd := exec.Command(d.launcher, commandName, //nolint:gosec // the image's
		"--program="+d.program, "--shared-dir="+s.Directory)
	cmd.ExtraFiles = []*os.File{socket}
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
	began := daemon{cmd: cmd, ended: make(chan struct{}), replaced: make(chan struct{})}
	d.running = append(d.running, began)
	go func() {
		err := d.processes.Wait(cmd)
		_ = input.Close()
		copied.Wait()
		d.log.Warn().Str("volume", s.Name).AnErr("err", err).Msg("virtiofsd has ended")
		close(began.ended)
		select {
		case <-began.replaced:
		default:
			lost(s.Name)
		}
	}()
	return nil
}

// listen makes a Unix socket, and leaves its file when the listener is closed: the daemon goes on with it.
func listen(path string) (*os.File, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("making its socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	defer l.Close() //nolint:errcheck // the file stays
	f, err := l.File()
	if err != nil {
		return nil, fmt.Errorf("handing on its socket: %w", err)
	}
	return f, nil
}

// copyLog repeats what a daemon writes in the launcher's log.
func (d *Daemons) copyLog(volume string, from io.Reader) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		d.log.Warn().Str("volume", volume).Msg("virtiofsd: " + lines.Text())
	}
	_, _ = io.Copy(io.Discard, from) // after a line that is too long for the log
}
