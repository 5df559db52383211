package credentials

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/rs/zerolog"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/agent"
)

// Intervals has the times between checks of the Secrets, and between repetitions of what has not changed.
type Intervals struct{ Look, Again time.Duration }

// KubeVirtIntervals returns KubeVirt's intervals.
func KubeVirtIntervals() Intervals { return Intervals{Look: 15 * time.Second, Again: 5 * time.Minute} }

// KubeVirt's messages: for an agent that is not connected, and for credentials that it could not set.
const (
	offline        = "Guest agent is offline"
	keysFailed     = "Error encountered writing ssh pub key access credentials for user [%s]: %w"
	passwordFailed = "Error encountered setting password for user [%s]: %w"
)

// State has the facts about the guest that matter here.
type State struct{ Running, Connected, Frozen bool }

// Syncer keeps a guest's users as the Secrets define them.
type Syncer struct {
	credentials []v1.AccessCredential
	folder      string
	guest       agent.Channel
	every       Intervals
	state       func() State
	report      func(done bool, message string)
	log         zerolog.Logger

	// The following belong to Run.
	set      Wanted    // what the guest's agent has set
	setAt    time.Time // zero: nothing, since the agent has connected
	reported string    // what was reported last
}

// NewSyncer returns a Syncer. Only Run calls state, and calls report with changes.
func NewSyncer(
	credentials []v1.AccessCredential, folder string, guest agent.Channel, every Intervals, state func() State,
	report func(done bool, message string), log zerolog.Logger,
) *Syncer {
	return &Syncer{credentials: credentials, folder: folder, guest: guest, every: every, state: state, report: report,
		log: log}
}

// Run syncs until ctx ends. A call that hangs, because libvirt does, ends with the process.
func (s *Syncer) Run(ctx context.Context) {
	if keys, passwords := ByAgent(s.credentials); len(keys)+len(passwords) == 0 {
		return
	}
	tick := time.NewTicker(s.every.Look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.look(now)
		}
	}
}

// look sets credentials that have changed, or were set long ago. The agent of a frozen guest can set nothing, so look
// waits until the guest is thawed. A failure is tried again at the next look.
func (s *Syncer) look(now time.Time) {
	state := s.state()
	switch {
	case !state.Running || state.Connected && state.Frozen:
		return
	case !state.Connected:
		s.setAt = time.Time{}
		s.reportChange(false, offline)
		return
	}
	wanted, err := Read(s.credentials, s.folder)
	if err != nil {
		s.reportChange(false, err.Error())
		return
	}
	if !s.setAt.IsZero() && now.Sub(s.setAt) < s.every.Again && reflect.DeepEqual(wanted, s.set) {
		return
	}
	if err := s.apply(wanted); err != nil {
		s.setAt = time.Time{}
		s.reportChange(false, err.Error())
		return
	}
	s.set, s.setAt = wanted, now
	s.reportChange(true, "")
}

// apply sets everything that can be set, and returns the last failure.
func (s *Syncer) apply(w Wanted) error {
	var failed error
	for _, user := range slices.Sorted(maps.Keys(w.Keys)) {
		if err := agent.SetAuthorizedKeys(s.guest, user, w.Keys[user]); err != nil {
			failed = fmt.Errorf(keysFailed, user, err) //nolint:staticcheck // KubeVirt's words
		}
	}
	for _, user := range slices.Sorted(maps.Keys(w.Passwords)) {
		if err := agent.SetPassword(s.guest, user, w.Passwords[user]); err != nil {
			failed = fmt.Errorf(passwordFailed, user, err) //nolint:staticcheck // KubeVirt's words
		}
	}
	return failed
}

// reportChange reports whether the access credentials are set, or why not, unless it has reported the same before.
func (s *Syncer) reportChange(done bool, message string) {
	what := fmt.Sprint(done, message)
	if what == s.reported {
		return
	}
	s.reported = what
	if done {
		s.log.Info().Msg("set access credentials in guest")
	} else {
		s.log.Warn().Str("problem", message).Msg("failed to set access credentials in guest")
	}
	s.report(done, message)
}
