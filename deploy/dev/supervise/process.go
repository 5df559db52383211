package supervise

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Restarts: the first is nearly immediate, so that a test that kills something waits for the component and not for the
// supervisor; a process that keeps failing is restarted more slowly.
const (
	backoffMin = 200 * time.Millisecond
	// settled is how long a process runs until its next end counts as a first one.
	settled = 20 * time.Second
)

// restarts are the pauses before each further start, 10 s at most.
func restarts() wait.Backoff {
	return wait.Backoff{Duration: backoffMin, Factor: 2, Steps: 6, Cap: 10 * time.Second}
}

// process keeps one process running.
type process struct {
	spec   Spec
	log    zerolog.Logger
	file   string // of its output
	record string // identifies it; empty: no later supervisor can adopt it
	wake   chan struct{}

	mu     sync.Mutex
	status Status
	live   *handle
	halted bool // by hand: it is not started before resume
}

func newProcess(s Spec, o Options) *process {
	p := &process{spec: s, log: o.Log.With().Str("process", s.Name).Logger(),
		file: filepath.Join(o.Logs, s.Name+".log"), wake: make(chan struct{}, 1)}
	if o.Prefix != "" {
		p.file = filepath.Join(o.Logs, o.Prefix+"-"+s.Name+".log")
	}
	if o.Records != "" {
		p.record = filepath.Join(o.Records, s.Name+".json")
	}
	p.status = Status{Name: s.Name, State: Waiting, Since: time.Now(), Log: p.file}
	return p
}

// keep keeps the process running until ctx is done. It then leaves it running: stop ends it.
func (p *process) keep(ctx context.Context) {
	h := p.takeOver(ctx)
	for delays := restarts(); ctx.Err() == nil; {
		var err error
		if h == nil {
			h, err = p.start(ctx)
		}
		if err == nil && h != nil {
			select {
			case <-ctx.Done():
				return
			case <-h.done:
			}
			p.log.Warn().Str("end", h.end).Msg("observed end of process")
			p.set(Backoff, nil, h.end)
			if time.Since(h.since) > settled {
				delays = restarts()
			}
		} else if err != nil && ctx.Err() == nil {
			p.log.Warn().Err(err).Msg("failed to start process")
			p.set(Backoff, nil, err.Error())
		}
		h = nil
		select {
		case <-ctx.Done():
		case <-p.wake:
			delays = restarts()
		case <-time.After(delays.Step()):
		}
		for p.isHalted() && ctx.Err() == nil {
			p.set(Stopped, nil, "")
			select {
			case <-ctx.Done():
			case <-p.wake:
			}
		}
	}
}

func (p *process) isHalted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.halted
}

// halt ends the process with its grace, or keeps it from being started again: until resume, or for as long as this
// supervisor lives.
func (p *process) halt() {
	p.mu.Lock()
	p.halted = true
	h := p.live
	p.mu.Unlock()
	if h != nil {
		p.end(h)
	}
}

// resume lets keep start the process again.
func (p *process) resume() {
	p.mu.Lock()
	p.halted = false
	p.mu.Unlock()
	p.skipBackoff()
}

// skipBackoff makes keep start the process again at once.
func (p *process) skipBackoff() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// takeOver finds the process that an earlier supervisor left. It ends one whose specification has changed.
func (p *process) takeOver(ctx context.Context) *handle {
	if p.record == "" {
		return nil
	}
	r, err := readRecord(p.record)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.log.Warn().Err(err).Msg("failed to read record of process")
		}
		return nil
	}
	h, err := adopt(r)
	if err != nil {
		return nil
	}
	if r.Hash != p.spec.hash() {
		p.log.Info().Int("pid", r.PID).Msg("replacing process whose specification has changed")
		p.end(h)
		return nil
	}
	if p.spec.Started != nil {
		if err := p.spec.Started(ctx, h.pid, true); err != nil {
			p.log.Warn().Err(err).Msg("replacing process that cannot be adopted")
			p.end(h)
			return nil
		}
	}
	p.log.Info().Int("pid", r.PID).Msg("adopted process of an earlier supervisor")
	p.set(Running, h, "")
	return h
}

func (p *process) start(ctx context.Context) (*handle, error) {
	if p.spec.Needs != nil {
		p.set(Waiting, nil, "")
		if err := p.spec.Needs(ctx); err != nil {
			return nil, err
		}
	}
	rotate(p.file)
	h, err := start(p.spec, p.file)
	if err != nil {
		return nil, err
	}
	if p.record != "" {
		if err := h.save(p.record, p.spec.hash()); err != nil {
			p.log.Warn().Err(err).Msg("failed to record process for a later supervisor")
		}
	}
	if p.spec.Started != nil {
		if err := p.spec.Started(ctx, h.pid, false); err != nil {
			p.end(h)
			return nil, err
		}
	}
	p.log.Info().Int("pid", h.pid).Msg("started")
	p.set(Running, h, "")
	return h, nil
}

// end ends a process: SIGTERM, the grace, SIGKILL.
func (p *process) end(h *handle) {
	if p.spec.Grace > 0 {
		h.signal(syscall.SIGTERM)
		select {
		case <-h.done:
			return
		case <-time.After(p.spec.Grace):
		}
	}
	h.signal(syscall.SIGKILL)
	<-h.done
}

// stop ends the process for good; keep has returned.
func (p *process) stop() {
	p.mu.Lock()
	h := p.live
	p.mu.Unlock()
	if h != nil {
		p.end(h)
	}
	if p.record != "" {
		_ = os.Remove(p.record) // a record of a process that is gone does no harm
	}
	p.set(Stopped, nil, "")
}

// signal sends the running process a signal, and reports whether it was sent; the process is then restarted at once.
func (p *process) signal(s syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live == nil {
		return false
	}
	p.live.signal(s)
	return true
}

func (p *process) set(state State, h *handle, end string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if state == Backoff && p.status.State == Running {
		p.status.Restarts++
	}
	p.status.State, p.status.Since, p.status.PID, p.live = state, time.Now(), 0, h
	if h != nil {
		p.status.PID, p.status.Since = h.pid, h.since
	}
	if end != "" {
		p.status.LastEnd = end
	}
}

func (p *process) currentStatus() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}
