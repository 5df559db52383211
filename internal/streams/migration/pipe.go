package migration

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Buffer is what one direction of a Pipe holds, in bytes, beside what the kernel and TLS hold. It is about what a Unix
// socket holds, so that QEMU can go on while the network waits. It saves no processor time: BenchmarkMigrationStream
// finds 32 KiB as good on one processor.
const Buffer = 256 << 10

// Stream is a connection whose directions end one by one.
type Stream interface {
	net.Conn
	CloseWrite() error
}

// Moved is how many bytes went in each direction.
type Moved struct{ There, Back int64 }

// Pipe carries bytes between two connections until both directions have ended; the end of one is passed on to the other
// side at once. When a direction fails, or ctx ends, both connections are cut and that is the error. They are closed
// when Pipe returns.
//
// There is no limit for how long nothing may move: whether a migration gets on is for those to judge who know what it
// does.
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

// Cut ends a connection so that whoever reads or writes it is told so, now. A Unix socket that came from a launcher is
// shut down first: the launcher may have kept it and made it blocking, and then nothing else wakes who waits for it.
func Cut(c net.Conn) {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn() // TLS would wait for a chance to say goodbye
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
			// Nobody is told of an error: a side that has gone altogether fails in the other direction, too.
			_ = to.CloseWrite()
			return moved
		}
		if err != nil {
			cut(err)
			return moved
		}
	}
}
