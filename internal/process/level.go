package process

import (
	"sync/atomic"

	"github.com/rs/zerolog"
)

// Level is the least severe level that a process logs: that of its flag --log-level, or a less severe one while the
// cluster's settings ask for it. It is safe for concurrent use.
type Level struct {
	flag zerolog.Level
	now  atomic.Int32
}

func newLevel(flag zerolog.Level) *Level {
	l := &Level{flag: flag}
	l.now.Store(int32(flag))
	return l
}

// Set changes the level. One that is more severe than the flag's stands for the flag's.
func (l *Level) Set(level zerolog.Level) { l.now.Store(int32(min(l.flag, level))) }

// Sample reports whether events of a level are logged. Level is a zerolog.Sampler, so that other events cost no more
// than this call.
func (l *Level) Sample(level zerolog.Level) bool { return level >= zerolog.Level(l.now.Load()) }

// Run discards an event that is not logged. Level is a zerolog.Hook for the loggers that have another sampler.
func (l *Level) Run(e *zerolog.Event, level zerolog.Level, _ string) {
	if !l.Sample(level) {
		e.Discard()
	}
}
