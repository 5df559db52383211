package relay

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// Buffer is what one direction holds at most, in bytes, beside what the kernel and the protocols on both sides hold.
const Buffer = 32 << 10

// Why a relay has ended, where neither side did it.
//
//nolint:gochecknoglobals // constant errors
var (
	ErrStalled = errors.New("a side took nothing for too long")
	ErrIdle    = errors.New("nothing came for too long")
)

// Bounds in time.
type Bounds struct {
	// Stalled is how long a side may take nothing, Idle how long nothing may come from either.
	Stalled, Idle time.Duration
}

// Mover moves one piece from one side to the other: it reads, then calls write with what writes the piece. io.EOF is
// the end of a side.
type Mover func(write func(func() error) error) error

// Run moves pieces in both directions until one of them ends or ctx does. Then it calls end, once, with the reason
// (nil: a side has ended), which has to make both sides' reads and writes fail. It returns the reason when both
// directions have ended.
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
	idle := time.AfterFunc(b.Idle, func() { stop(ErrIdle) })
	defer idle.Stop()
	var both sync.WaitGroup
	for _, move := range []Mover{there, back} {
		both.Go(func() {
			stalled := time.AfterFunc(b.Stalled, func() { stop(ErrStalled) })
			stalled.Stop()
			defer stalled.Stop()
			for {
				err := move(func(write func() error) error {
					idle.Reset(b.Idle)
					stalled.Reset(b.Stalled)
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
	once.Do(func() {}) // whoever is first is done by then
	return why
}

// Bytes moves bytes as they come.
func Bytes(from io.Reader, to io.Writer) Mover {
	p := make([]byte, Buffer)
	return func(write func(func() error) error) error {
		n, err := from.Read(p)
		if n > 0 {
			if err := write(func() error { _, err := to.Write(p[:n]); return err }); err != nil {
				return err
			}
		}
		return err //nolint:wrapcheck // what a side says
	}
}
