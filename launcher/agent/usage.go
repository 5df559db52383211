package agent

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/rpc"
)

const (
	// usageInterval is the shortest time between two requests, silentInterval that after an agent did not answer.
	usageInterval, silentInterval = 30 * time.Second, 2 * time.Minute
	// loadInterval is the time until an agent that lacks guest-get-load is sent that again: libvirt logs each refusal.
	// QEMU's agent supports it since version 10.0.
	loadInterval = time.Hour
	// usageAge is the age up to which an answer counts.
	usageAge = 5 * time.Minute
)

// Usage has the agent's last answers about what the guest uses: its file systems, and its load. No caller waits for
// the agent. It is safe for concurrent use.
type Usage struct {
	channel Channel
	now     func() time.Time

	mu      sync.Mutex
	asking  bool
	due     time.Time // of the next request
	loadDue time.Time // of the next guest-get-load
	files   []*rpc.GuestFileSystem
	load    *rpc.GuestLoad
	// When the agent answered each; zero: never.
	filesAt, loadAt time.Time
}

// NewUsage returns a Usage without any answer yet.
func NewUsage(c Channel) *Usage { return &Usage{channel: c, now: time.Now} }

// Known returns the last answers, which must not be changed. What the agent has not answered lately, or does not
// support, is nil.
func (u *Usage) Known() (files []*rpc.GuestFileSystem, load *rpc.GuestLoad) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	if now.Sub(u.filesAt) < usageAge {
		files = u.files
	}
	if now.Sub(u.loadAt) < usageAge {
		load = u.load
	}
	return files, load
}

// Refresh asks the agent in the background, unless a request is in progress or was sent lately. Call it only while the
// guest runs and its agent is connected.
func (u *Usage) Refresh() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := u.now(); u.asking || now.Before(u.due) {
		return
	}
	u.asking = true
	go u.ask(!u.now().Before(u.loadDue))
}

// ask sends the requests and records the answers.
func (u *Usage) ask(withLoad bool) {
	var found rpc.GuestDetailsResponse
	err := fileSystems(u.channel, &found)
	var load *rpc.GuestLoad
	var loadErr error
	if withLoad && !errors.Is(err, guest.ErrSilent) {
		load, loadErr = readLoad(u.channel)
	}
	for _, f := range found.GetFileSystems() {
		f.Disks = nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asking = false
	now := u.now()
	u.due = now.Add(usageInterval)
	switch {
	case errors.Is(err, guest.ErrSilent) || errors.Is(loadErr, guest.ErrSilent):
		u.due = now.Add(silentInterval)
	case isMissing(loadErr):
		u.loadDue = now.Add(loadInterval)
	}
	if err == nil {
		u.files, u.filesAt = found.GetFileSystems(), now
	}
	if load != nil {
		u.load, u.loadAt = load, now
	}
}

// isMissing reports whether an agent lacks a command, or was started without it. libvirt's error has only the text of
// the agent's: for QEMU's agent, the command "has not been found", or "has been disabled".
// https://gitlab.com/qemu-project/qemu/-/blob/v10.0.0/qapi/qmp-dispatch.c
func isMissing(err error) bool {
	return err != nil &&
		(strings.Contains(err.Error(), "has not been found") || strings.Contains(err.Error(), "has been disabled"))
}

// readLoad asks for the guest's load averages.
func readLoad(c Channel) (*rpc.GuestLoad, error) {
	var l struct {
		One     float64 `json:"load1m"`
		Five    float64 `json:"load5m"`
		Fifteen float64 `json:"load15m"`
	}
	if err := call(c, "guest-get-load", nil, lookTimeout, &l); err != nil {
		return nil, err
	}
	return &rpc.GuestLoad{OneMinute: l.One, FiveMinutes: l.Five, FifteenMinutes: l.Fifteen}, nil
}
