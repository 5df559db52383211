package relay

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// Buffer is the size of the buffer of one direction, in bytes, beside those of the kernel and the protocols on both
// sides.
const Buffer = 32 << 10

// The errors of a relay that a time limit of Bounds has ended.
var (
	ErrStalled = errors.New("a side accepted no data for too long")
	ErrIdle    = errors.New("no data arrived for too long")
)

// Bounds has the time limits of a relay.
type Bounds struct {
	// StallTimeout is how long a side may accept no data, and IdleTimeout how long none may arrive from either.
	StallTimeout, IdleTimeout time.Duration
}

// Mover moves one piece from one side to the other: it reads, then calls write with a function that writes the piece.
// It returns io.EOF at the end of a side.
type Mover func(write func(func() error) error) error

// Run moves pieces in both directions until one of them or ctx ends. Then it calls end, once, with the reason (nil: a
// side has ended), which must make both sides' reads and writes fail. It returns the reason when both directions have
// ended.
func Run(ctx context.Context, b Bounds, end func(error), there, back Mover) error {
	var why error
	var once sync.Once
	stop := func(err error) {
		once.Do(func() {
			why = err
			end(err)
		})
	}
	left := context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })
	defer left()
	idle := time.AfterFunc(b.IdleTimeout, func() { stop(ErrIdle) })
	defer idle.Stop()
	var both sync.WaitGroup
	for _, move := range []Mover{there, back} {
		both.Go(func() {
			stalled := time.AfterFunc(b.StallTimeout, func() { stop(ErrStalled) })
			stalled.Stop()
			defer stalled.Stop()
			for {
				err := move(func(write func() error) error {
					idle.Reset(b.IdleTimeout)
					stalled.Reset(b.StallTimeout)
					defer stalled.Stop()
					return write()
				})
				if errors.Is(err, io.EOF) {
					stop(nil)
					return
				}
				if err != nil {
					stop(err)
					return
				}
			}
		})
	}
	both.Wait()
	once.Do(func() {}) // waits for a running call of end
	return why
}

// Bytes returns a Mover that moves bytes as they arrive.
func Bytes(from io.Reader, to io.Writer) Mover {
	p := make([]byte, Buffer)
	return func(write func(func() error) error) error {
		n, err := from.Read(p)
		if n > 0 {
			if err := write(func() error { _, err := to.Write(p[:n]); return err }); err != nil {
				return err
			}
		}
		return err // an error of a side
	}
}
