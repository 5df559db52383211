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

// Intervals are how often the Secrets are looked at, and how often what has not changed is set again.
type Intervals struct{ Look, Again time.Duration }

// KubeVirtIntervals are KubeVirt's.
func KubeVirtIntervals() Intervals { return Intervals{Look: 15 * time.Second, Again: 5 * time.Minute} }

// KubeVirt's words: for an agent that is not connected, and for what it could not set.
const (
	offline        = "Guest agent is offline"
	keysFailed     = "Error encountered writing ssh pub key access credentials for user [%s]: %w"
	passwordFailed = "Error encountered setting password for user [%s]: %w"
)

// State is what counts of the guest.
type State struct{ Running, Connected, Frozen bool }

// Syncer keeps a guest's users as the Secrets say.
type Syncer struct {
	credentials []v1.AccessCredential
	folder      string
	guest       agent.Channel
	every       Intervals
	state       func() State
	tell        func(done bool, message string)
	log         zerolog.Logger

	// Run's own.
	set   Wanted    // what the guest's agent has set
	setAt time.Time // zero: nothing, since the agent came
	told  string    // what was told last
}

// NewSyncer makes one. State is asked, and tell called with what has changed, from Run only.
func NewSyncer(
	credentials []v1.AccessCredential, folder string, guest agent.Channel, every Intervals, state func() State,
	tell func(done bool, message string), log zerolog.Logger,
) *Syncer {
	return &Syncer{credentials: credentials, folder: folder, guest: guest, every: every, state: state, tell: tell,
		log: log}
}

// Run looks until ctx ends. A look that hangs, because libvirt does, ends with the process.
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

// look sets what has changed, or was set long ago. The agent of a frozen guest can set nothing: it is asked once that
// is over. What fails is tried again at the next look.
func (s *Syncer) look(now time.Time) {
	state := s.state()
	switch {
	case !state.Running || state.Connected && state.Frozen:
		return
	case !state.Connected:
		s.setAt = time.Time{}
		s.say(false, offline)
		return
	}
	wanted, err := Read(s.credentials, s.folder)
	if err != nil {
		s.say(false, err.Error())
		return
	}
	if !s.setAt.IsZero() && now.Sub(s.setAt) < s.every.Again && reflect.DeepEqual(wanted, s.set) {
		return
	}
	if err := s.apply(wanted); err != nil {
		s.setAt = time.Time{}
		s.say(false, err.Error())
		return
	}
	s.set, s.setAt = wanted, now
	s.say(true, "")
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

func (s *Syncer) say(done bool, message string) {
	if what := fmt.Sprint(done, message); what != s.told {
		s.told = what
		s.log.Info().Bool("done", done).Str("problem", message).Msg("access credentials")
		s.tell(done, message)
	}
}
