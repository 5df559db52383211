package launchers

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// cgroupFileLimit is far more than the kernel writes for any number of hierarchies.
const cgroupFileLimit = 64 << 10

// Peer is the process that serves a launcher's socket. File descriptors refer to it, so that another process that gets
// the same number later is never mistaken for it.
type Peer struct {
	PID   int
	pidfd *os.File
	proc  *os.File // /proc/PID
}

// newPeer identifies the process at the other end of conn and refuses one that is not in the pod's cgroup.
func newPeer(conn *net.UnixConn, procDir, uid string) (*Peer, error) {
	pid, pidfd, err := peerOf(conn)
	if err != nil {
		return nil, err
	}
	p := &Peer{PID: pid, pidfd: os.NewFile(uintptr(pidfd), "pidfd")}
	if err := p.verify(procDir, uid); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close releases the process.
func (p *Peer) Close() {
	p.pidfd.Close()
	if p.proc != nil {
		p.proc.Close()
	}
}

// NetworkNamespace opens the network namespace of the process.
func (p *Peer) NetworkNamespace() (*os.File, error) {
	return p.open("ns/net", unix.O_RDONLY)
}

// Root opens (O_PATH) the root directory of the process.
func (p *Peer) Root() (*os.File, error) {
	return p.open("root", unix.O_PATH|unix.O_DIRECTORY)
}

func (p *Peer) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(p.proc.Fd()), name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s of process %d: %w", name, p.PID, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (p *Peer) verify(procDir, uid string) error {
	dir := filepath.Join(procDir, strconv.Itoa(p.PID))
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("looking at the process that serves the socket: %w", err)
	}
	p.proc = os.NewFile(uintptr(fd), dir)
	peer, err := p.open("cgroup", unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer peer.Close()
	theirs, err := io.ReadAll(io.LimitReader(peer, cgroupFileLimit))
	if err != nil {
		return fmt.Errorf("reading the cgroup of process %d: %w", p.PID, err)
	}
	ours, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return fmt.Errorf("reading the own cgroup: %w", err)
	}
	// It is alive now, so no other process had its number when /proc/PID was opened.
	if err := unix.PidfdSendSignal(int(p.pidfd.Fd()), 0, nil, 0); err != nil {
		return fmt.Errorf("the process %d that served the socket has ended: %w", p.PID, err)
	}
	if !isInPod(string(ours), string(theirs), uid) {
		return fmt.Errorf("process %d serves the socket of pod %s but does not belong to that pod", p.PID, uid)
	}
	return nil
}

// peerOf returns the process at the other end and a pidfd of it.
func peerOf(conn *net.UnixConn) (pid, pidfd int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, 0, fmt.Errorf("looking at the launcher's connection: %w", err)
	}
	pidfd = -1
	var failed error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failed != nil {
			return
		}
		if pid = int(cred.Pid); pid <= 0 {
			failed = errors.New("its process is not visible here: the node worker must share the node's process " +
				"namespace (hostPID)")
			return
		}
		// The kernel knows the very process since 6.5; before that its number has to do.
		if pidfd, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); errors.Is(failed,
			unix.ENOPROTOOPT) {
			pidfd, failed = unix.PidfdOpen(pid, 0)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, 0, fmt.Errorf("asking who serves the launcher's socket: %w", err)
	}
	unix.CloseOnExec(pidfd)
	return pid, pidfd, nil
}
