package supervise

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// Options has the paths of a supervisor's files.
type Options struct {
	// Log is the supervisor's own log.
	Log zerolog.Logger
	// Logs is the folder of the processes' logs.
	Logs string
	// Prefix goes before the names of the logs.
	Prefix string
	// Records is the folder with a file per running process, by which a later
	// supervisor takes them over. Empty: the processes end with this one.
	Records string
	// Version is part of the status, by which a caller sees whether this is the supervisor that it needs.
	Version string
}

// Supervisor keeps a fixed set of processes running.
type Supervisor struct {
	options   Options
	processes []*process
	finish    chan bool // true: end the processes, false: leave them to the next supervisor
	finishing atomic.Bool
}

// New returns a supervisor; Run starts it.
func New(o Options, specs []Spec) (*Supervisor, error) {
	s := &Supervisor{options: o, finish: make(chan bool, 1)}
	seen := map[string]bool{}
	for _, spec := range specs {
		if spec.Name == "" || len(spec.Args) == 0 || seen[spec.Name] {
			return nil, fmt.Errorf("supervise %q: the name has to be unique and the program given", spec.Name)
		}
		seen[spec.Name] = true
		s.processes = append(s.processes, newProcess(spec, o))
	}
	return s, nil
}

// Run keeps the processes running until ctx is done or Finish is called. When ctx ends it ends them.
func (s *Supervisor) Run(ctx context.Context) {
	keeping, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var kept sync.WaitGroup
	for _, p := range s.processes {
		kept.Go(func() { p.keep(keeping) })
	}
	kept.Go(func() { s.watchLogs(keeping) })
	end := true
	select {
	case <-ctx.Done():
	case end = <-s.finish:
	}
	s.finishing.Store(true)
	cancel()
	kept.Wait()
	if !end {
		s.options.Log.Info().Msg("leaving the processes to the next supervisor")
		return
	}
	s.stop(false)
	s.stop(true)
	s.options.Log.Info().Msg("stopped")
}

// Finish makes Run return: with end, after every process has ended; without, at once, and the processes continue.
func (s *Supervisor) Finish(end bool) {
	s.finishing.Store(true)
	select {
	case s.finish <- end:
	default: // it is finishing already
	}
}

func (s *Supervisor) stop(last bool) {
	var stopping sync.WaitGroup
	for _, p := range s.processes {
		if p.spec.Last == last {
			stopping.Go(p.stop)
		}
	}
	stopping.Wait()
}

func (s *Supervisor) watchLogs(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, p := range s.processes {
				rotate(p.file)
			}
		}
	}
}

// Statuses returns the processes' current statuses.
func (s *Supervisor) Statuses() []Status {
	all := make([]Status, len(s.processes))
	for i, p := range s.processes {
		all[i] = p.currentStatus()
	}
	return all
}

func (s *Supervisor) find(name string) (*process, bool) {
	for _, p := range s.processes {
		if p.spec.Name == name {
			return p, true
		}
	}
	return nil, false
}
