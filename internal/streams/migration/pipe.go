package migration

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Buffer is the size of the buffer of one direction of a Pipe, in bytes, beside those of the kernel and TLS. It is
// about that of a Unix socket, so that QEMU can continue while the network waits. It saves no CPU time: in
// BenchmarkMigrationStream 32 KiB are as good on one CPU.
const Buffer = 256 << 10

// Stream is a connection whose directions end separately.
type Stream interface {
	net.Conn
	CloseWrite() error
}

// Moved has the number of bytes that went in each direction.
type Moved struct{ There, Back int64 }

// Pipe carries bytes between two connections until both directions have ended; it passes the end of one on to the other
// side at once. When a direction fails, or ctx ends, it cuts both connections and returns that error. The connections
// are closed when Pipe returns.
//
// It has no time limit without data: the caller decides about progress, because it knows the state of the migration.
func Pipe(ctx context.Context, a, b Stream) (Moved, error) {
	var why error
	var once sync.Once
	cut := func(err error) {
		once.Do(func() {
			why = err
			Cut(a)
			Cut(b)
		})
	}
	stop := context.AfterFunc(ctx, func() { cut(context.Cause(ctx)) })
	var m Moved
	var both sync.WaitGroup
	both.Go(func() { m.There = carry(a, b, cut) })
	both.Go(func() { m.Back = carry(b, a, cut) })
	both.Wait()
	stop()
	once.Do(func() { // the orderly end
		a.Close()
		b.Close()
	})
	return m, why
}

// Cut ends a connection so that pending reads and writes fail at once. A Unix socket that came from a launcher is shut
// down first: the launcher may have kept it and made it blocking, and then nothing else wakes a pending call.
func Cut(c net.Conn) {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn() // TLS would wait until it can send close_notify
	}
	if u, ok := c.(*net.UnixConn); ok {
		_ = u.CloseRead()
		_ = u.CloseWrite()
	}
	c.Close()
}

// carry moves bytes in one direction until it ends.
func carry(from, to Stream, cut func(error)) (moved int64) {
	p := make([]byte, Buffer)
	for {
		n, err := from.Read(p)
		if n > 0 {
			w, failed := to.Write(p[:n])
			moved += int64(w)
			if failed != nil {
				cut(failed)
				return moved
			}
		}
		if errors.Is(err, io.EOF) {
			// The error is not returned: a side that has gone altogether fails in the other direction, too.
			_ = to.CloseWrite()
			return moved
		}
		if err != nil {
			cut(err)
			return moved
		}
	}
}
