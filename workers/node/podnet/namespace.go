package podnet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// inNamespace runs work on a thread that is in the network namespace ns and, for everything else, where the process is.
func inNamespace(ns *os.File, work func() error) error {
	done := make(chan error, 1)
	go func() {
		defer close(done)
		runtime.LockOSThread()
		own, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("opening the own network namespace: %w", err)
			return
		}
		defer own.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("entering the network namespace: %w", err)
			return
		}
		err = work()
		// A thread that cannot go back stays locked, and so ends with this goroutine.
		if unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// refuseNodeNetwork fails when ns is the network namespace of this process or of the node's first one.
func refuseNodeNetwork(ns *os.File) error {
	var pod, node unix.Stat_t
	if err := unix.Fstat(int(ns.Fd()), &pod); err != nil {
		return fmt.Errorf("looking at the pod's network namespace: %w", err)
	}
	for _, path := range []string{"/proc/thread-self/ns/net", "/proc/1/ns/net"} {
		switch err := unix.Stat(path, &node); {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			continue // not visible from here, as in a test
		case err != nil:
			return fmt.Errorf("looking at the node's network namespace: %w", err)
		}
		if node.Dev == pod.Dev && node.Ino == pod.Ino {
			return errors.New("the launcher's pod is in the node's own network namespace: nothing is prepared there")
		}
	}
	return nil
}
