package launchers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

// socketsPath leads from a pod's directory to its emptyDir volume "sockets".
const socketsPath = "volumes/kubernetes.io~empty-dir/sockets/"

// The sockets of a launcher: its gRPC service, and the streams of a guest that moves.
const (
	serviceSocket   = "launcher.sock"
	migrationSocket = "mig.sock"
)

// podUID matches a pod's UID: a UUID, or the plain hash of a static pod.
var podUID = regexp.MustCompile(`^[0-9a-fA-F][0-9a-fA-F-]{30,34}[0-9a-fA-F]$`)

// ErrAbsent is the error for a pod without a launcher to connect to: it has no directory or no socket (yet, or any
// more).
var ErrAbsent = errors.New("no launcher")

// IsValidPodUID reports whether uid can be a pod's UID. Only such a UID may become part of a path.
func IsValidPodUID(uid string) bool { return podUID.MatchString(uid) }

// Pods returns the kubelet's directory that holds a directory for each pod.
func Pods(kubeletDir string) string { return filepath.Join(kubeletDir, "pods") }

// IsPodGone reports whether the kubelet has removed everything of the pod.
func IsPodGone(kubeletDir, uid string) bool {
	_, err := os.Lstat(filepath.Join(Pods(kubeletDir), uid))
	return errors.Is(err, fs.ErrNotExist)
}

// openSocket opens (O_PATH) a socket of that name that the launcher of a pod serves. The user of the pod owns the
// volume that it lies in, so no link on the way is followed and nothing but a socket is taken.
func openSocket(kubeletDir, uid, name string) (*os.File, error) {
	if !IsValidPodUID(uid) {
		return nil, fmt.Errorf("%q is not the UID of a pod", sanitize(uid, 64))
	}
	dir := filepath.Join(Pods(kubeletDir), uid)
	parent, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, wrapAbsent(fmt.Errorf("opening %s: %w", dir, err))
	}
	defer unix.Close(parent)
	fd, err := unix.Openat2(parent, socketsPath+name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, wrapAbsent(fmt.Errorf("opening %s in %s: %w", socketsPath+name, dir, err))
	}
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, fmt.Errorf("looking at the launcher's socket: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		f.Close()
		return nil, fmt.Errorf("%s in %s is not a socket", socketsPath+name, dir)
	}
	return f, nil
}

// wrapAbsent makes an error about a missing file one that also is ErrAbsent.
func wrapAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return err
}
