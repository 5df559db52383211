package migration_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/migration"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// libvirt plays a list of answers to the session, and repeats the last.
type libvirt struct {
	mu      sync.Mutex
	returns chan error
	dead    chan struct{}
	phases  []string
	looks   []look
	did     []string
	limits  []time.Duration // of the downtime, as they came
	aborts  chan struct{}   // an abort hangs until it is closed; nil: it does not
	copying bool
}

type look struct {
	status guest.Status
	err    error
}

func (l *libvirt) do(what string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.did = append(l.did, what)
	return nil
}

func (l *libvirt) done() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.did...)
}

func (l *libvirt) Migrate(guest.Move) error { return <-l.returns }

func (l *libvirt) AbortMigration() error {
	if l.aborts != nil {
		<-l.aborts
	}
	l.returns <- errors.New("operation aborted")
	return l.do("abort")
}
func (l *libvirt) SetMigrationBandwidth(int64) error { return l.do("bandwidth") }

func (l *libvirt) SetMigrationDowntime(limit time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = append(l.limits, limit)
	return nil
}

func (l *libvirt) Suspend() error   { return l.do("suspend") }
func (l *libvirt) StoppedAt() int64 { return 0 }

// Resume shows in the next answer.
func (l *libvirt) Resume() error {
	_ = l.do("resume")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks = []look{{status: guest.Status{State: guest.Running}}}
	return nil
}

func (l *libvirt) Copying() (guest.Copying, bool, error) {
	return guest.Copying{Total: 10, Processed: 1, Remaining: 9}, l.copying, nil
}

func (l *libvirt) Phase() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.phases[0]
	if len(l.phases) > 1 {
		l.phases = l.phases[1:]
	}
	return now
}

func (l *libvirt) Ended(context.Context) (<-chan struct{}, error) { return l.dead, nil }

func (l *libvirt) Look() (guest.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.looks[0]
	if len(l.looks) > 1 {
		l.looks = l.looks[1:]
	}
	return now.status, now.err
}

func newLibvirt() *libvirt {
	return &libvirt{returns: make(chan error, 2), dead: make(chan struct{}), phases: []string{""},
		looks: []look{{status: guest.Status{State: guest.Running}}}}
}

func session(l *libvirt, options *rpc.MigrationOptions, paused bool) *migration.Session {
	return migration.NewSession("uid", l, guest.Move{}, options, paused, zerolog.Nop())
}

func TestOutcomes(t *testing.T) {
	at := func(s guest.State) look { return look{status: guest.Status{State: s}} }
	paused := func(why guest.PauseReason) look {
		return look{status: guest.Status{State: guest.Paused, PauseReason: why}}
	}
	away := look{err: guest.ErrUnavailable}
	const process, said = rpc.MigrationProof_MIGRATION_PROOF_PROCESS, rpc.MigrationProof_MIGRATION_PROOF_LIBVIRT
	for name, c := range map[string]struct {
		dead     bool
		returned error
		phases   []string
		looks    []look
		paused   bool // by its user
		left     rpc.MigrationProof
		stayed   string
		ended    guest.State
		did      []string
	}{
		"QEMU is dead, and had given the guest away": {dead: true, phases: []string{"confirm3"}, looks: []look{away},
			left: process},
		"QEMU is dead, and libvirt was faster than we": {dead: true, phases: []string{guest.PhaseUnknown},
			looks: []look{at(guest.Running), away, at(guest.Migrated)}, left: said},
		"QEMU is dead before the target had the guest": {dead: true, phases: []string{"perform3_done"},
			looks: []look{away, at(guest.Crashed)}, ended: guest.Crashed},
		"QEMU is dead, the guest powered off": {dead: true, phases: []string{guest.PhaseUnknown},
			looks: []look{at(guest.Off)}, ended: guest.Off},
		"libvirt reports it as migrated":  {looks: []look{at(guest.Migrated)}, left: said},
		"success, and yet the guest runs": {stayed: "libvirt has resumed the guest at its source"},
		"failure, and yet it was migrated": {returned: errors.New("connection lost"), looks: []look{at(guest.Migrated)},
			left: said},
		"failure": {returned: errors.New("target full"), stayed: "target full"},
		"libvirtd comes back and is not done": {returned: errors.New("connection lost"),
			phases: []string{"perform3", "perform3", "perform3", ""},
			looks:  []look{away, paused(guest.ByMigration), at(guest.Running)}, stayed: "connection lost"},
		"libvirtd comes back and leaves the guest to us": {returned: errors.New("connection lost"),
			looks: []look{away, paused(guest.ByMigration)}, stayed: "connection lost", did: []string{"resume"}},
		"a guest that its user has paused stays paused": {returned: errors.New("target full"), paused: true,
			looks: []look{paused(guest.ByUser)}, stayed: "target full"},
		"also where libvirtd comes back": {returned: errors.New("connection lost"), paused: true,
			looks: []look{paused(guest.ByMigration)}, stayed: "connection lost"},
		"a full disk is not ours to mend": {returned: errors.New("no space"), looks: []look{paused(guest.ByNoSpace)},
			stayed: "no space"},
		"it powered off meanwhile": {returned: errors.New("domain is not running"), looks: []look{at(guest.Off)},
			ended: guest.Off},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLibvirt()
			if c.phases != nil {
				l.phases = c.phases
			}
			if c.looks != nil {
				l.looks = c.looks
			}
			if c.dead {
				close(l.dead)
			} else {
				l.returns <- c.returned
			}
			s := session(l, nil, c.paused)
			e := s.Run(t.Context())
			require.Equal(t, c.left, e.GetLeft().GetProof())
			require.Equal(t, c.stayed, e.GetStayed().GetReason())
			require.Equal(t, string(c.ended), e.GetEnded().GetReason())
			require.Equal(t, c.paused && e.GetLeft() != nil, e.GetLeft().GetPaused())
			require.Equal(t, c.did, l.done())
			require.Equal(t, e, s.Outcome())
		})
	}
}

func TestAbortsOnce(t *testing.T) {
	l := newLibvirt()
	l.aborts = make(chan struct{})
	s := session(l, nil, false)
	s.Abort("first", true)
	s.Abort("second", false)
	close(l.aborts)
	require.Equal(t, "first", s.Progress().GetAborting())
	e := s.Run(t.Context())
	require.Equal(t, "first", e.GetStayed().GetReason())
	require.True(t, e.GetStayed().GetAborted())
	s.Abort("too late", true)
	require.Eventually(t, func() bool { return len(l.done()) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, "first", s.Outcome().GetStayed().GetReason())
}

func TestResumesGuestThatWasPausedForItsMove(t *testing.T) {
	l := newLibvirt()
	l.looks = []look{{status: guest.Status{State: guest.Paused, PauseReason: guest.ByUser}}}
	s := session(l, nil, false)
	require.NoError(t, s.Disrupt())
	require.Equal(t, rpc.MigrationMode_MIGRATION_MODE_PAUSED, s.Progress().GetMode())
	l.returns <- errors.New("cut")
	require.Equal(t, "cut", s.Run(t.Context()).GetStayed().GetReason())
	require.Equal(t, []string{"suspend", "resume"}, l.done())
}

func TestFollowsMigration(t *testing.T) {
	l := newLibvirt()
	l.copying = true
	s := session(l, &rpc.MigrationOptions{MaxDowntimeMs: 100}, false)
	go s.Run(t.Context())
	var events []*rpc.MigrationEvent
	require.NoError(t, s.Follow(t.Context(), func(e *rpc.MigrationEvent) error {
		if events = append(events, e); e.GetProgress().GetTotal() > 0 {
			l.returns <- errors.New("cut")
		}
		return nil
	}))
	require.EqualValues(t, 9, events[1].GetProgress().GetRemaining())
	require.Equal(t, "cut", events[len(events)-1].GetStayed().GetReason())
	require.Equal(t, []time.Duration{12 * time.Millisecond}, l.limits, "before it begins to copy, and once")
	// A later follower gets the outcome.
	require.NoError(t, s.Follow(t.Context(), func(e *rpc.MigrationEvent) error {
		require.NotNil(t, e.GetStayed())
		return nil
	}))
}

func TestSessionEndsWithLauncher(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Nil(t, session(newLibvirt(), nil, false).Run(ctx))
}

func TestKeepsDowntimeSetByCaller(t *testing.T) {
	l := newLibvirt()
	l.copying = true
	s := session(l, nil, false)
	require.NoError(t, s.SetDowntime(time.Second))
	l.returns <- errors.New("cut")
	require.NotNil(t, s.Run(t.Context()).GetStayed())
	require.Equal(t, []time.Duration{time.Second}, l.limits)
}
