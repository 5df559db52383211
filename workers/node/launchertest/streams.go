package launchertest

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/virtflow/virtflow/workers/node/launchers"
)

// ServeStreams serves, beside the socket of a pod's launcher, the one through which streams of a guest that is moved
// are handed over. answer has to answer one request each time it is called; then the connection is closed.
func ServeStreams(t testing.TB, socket string, answer func(launchers.StreamRequest, *net.UnixConn)) {
	l := Listen(t, filepath.Join(filepath.Dir(socket), "mig.sock"))
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				line, err := bufio.NewReader(conn).ReadBytes('\n')
				var r launchers.StreamRequest
				if err == nil && json.Unmarshal(line, &r) == nil {
					answer(r, conn.(*net.UnixConn))
				}
			}()
		}
	}()
}

// HandOver answers with bytes and file descriptors, as they are.
func HandOver(to *net.UnixConn, bytes string, files ...*os.File) error {
	fds := make([]int, 0, len(files))
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = syscall.UnixRights(fds...)
	}
	_, _, err := to.WriteMsgUnix([]byte(bytes), rights, nil)
	return err
}
