package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// IsInside reports whether this process was started as the first process of a sandbox.
func IsInside() bool { return len(os.Args) == 3 && os.Args[1] == marker && os.Getpid() == 1 }

// Inside carries out the plan that Command was given. It does not return.
func Inside() {
	var plan Plan
	err := json.Unmarshal([]byte(os.Args[2]), &plan)
	if err == nil {
		err = prepare(plan)
	}
	if err == nil {
		err = serve(plan)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// prepare mounts what a container gets and makes the root the only file system.
func prepare(plan Plan) error {
	in := func(name string) string { return filepath.Join(plan.Root, name) }
	type step struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}
	steps := []step{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{plan.Root, plan.Root, "", unix.MS_BIND, ""},
		{"", plan.Root, "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY, ""},
		{"proc", in("proc"), "proc", 0, ""},
		{"sysfs", in("sys"), "sysfs", unix.MS_RDONLY, ""},
		{"tmpfs", in("dev"), "tmpfs", unix.MS_NOSUID, "mode=755"},
		{"tmpfs", in("tmp"), "tmpfs", 0, "mode=1777"},
		{"tmpfs", in("run"), "tmpfs", 0, "mode=1777"},
	}
	for _, s := range steps {
		if err := unix.Mount(s.source, s.target, s.kind, s.flags, s.data); err != nil {
			return fmt.Errorf("mount %s: %w", s.target, err)
		}
	}
	if err := makeDevices(in("dev")); err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(in("run/lock"), 0o755), os.Chmod(in("run/lock"), 0o777|os.ModeSticky)); err != nil {
		return fmt.Errorf("make /run/lock: %w", err)
	}
	for _, m := range plan.Mounts {
		if err := os.MkdirAll(in(m.Inside), 0o755); err != nil {
			return fmt.Errorf("mount %s: %w", m.Inside, err)
		}
		if err := unix.Mount(m.Host, in(m.Inside), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.Inside, err)
		}
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("set up the loopback interface: %w", err)
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	return unix.Chroot(plan.Root)
}

func makeDevices(dev string) error {
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		path := filepath.Join(dev, name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))); err != nil {
			return fmt.Errorf("make device %s: %w", name, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return fmt.Errorf("make device %s: %w", name, err)
		}
	}
	for _, dir := range []string{"pts", "shm"} {
		if err := os.Mkdir(filepath.Join(dev, dir), 0o755); err != nil {
			return fmt.Errorf("make /dev/%s: %w", dir, err)
		}
	}
	if err := unix.Mount("devpts", filepath.Join(dev, "pts"), "devpts", 0,
		"newinstance,ptmxmode=0666,mode=620"); err != nil {
		return fmt.Errorf("mount /dev/pts: %w", err)
	}
	if err := unix.Mount("shm", filepath.Join(dev, "shm"), "tmpfs", 0, "mode=1777"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	return os.Symlink("pts/ptmx", filepath.Join(dev, "ptmx"))
}

// loopbackUp switches lo on: daemons bind to it.
func loopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(request)))
	if errno != 0 {
		return errno
	}
	return nil
}

// serve runs the plan's program and reaps every process that ends: libvirt waits for orphans until they are reaped.
func serve(plan Plan) error {
	child, err := start(plan)
	if err != nil {
		return fmt.Errorf("start %s: %w", plan.Argv[0], err)
	}
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for processes: %w", err)
		}
		if ended == child {
			return fmt.Errorf("%s ended with %d", plan.Argv[0], status.ExitStatus())
		}
	}
}

func start(plan Plan) (int, error) {
	return syscall.ForkExec(plan.Argv[0], plan.Argv, &syscall.ProcAttr{
		Dir: "/", Env: plan.Env, Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(plan.UID), Gid: uint32(plan.GID)}},
	})
}
