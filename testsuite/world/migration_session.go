package world

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/lifecycle"
)

// Durations of a node worker's part in a migration, and for how long it asks a target to resume the guest.
const (
	dialLag    = 80 * time.Millisecond
	resumeLag  = 5 * time.Millisecond
	askAgain   = 200 * time.Millisecond
	resumeTime = 30 * time.Second
)

// nodeWorker has what one run of a node worker knows of migrations, which is lost with the run.
type nodeWorker struct {
	run int
	// offers are the fingerprints of this worker's keys as a source, sessions the copies that it carries as one, and
	// targets the migrations that it accepts; all by the migration's UID.
	offers   map[string]string
	sessions map[string]*session
	targets  map[string]*target
}

func newNodeWorker(run int) *nodeWorker {
	return &nodeWorker{run: run, offers: map[string]string{}, sessions: map[string]*session{},
		targets: map[string]*target{}}
}

// target is a migration that this node accepts.
type target struct {
	source string // its fingerprint
	pod    string // UID
}

// session is the migration of a guest as the source's node worker carries it. It does not depend on an activity.
type session struct {
	world       *World
	host        *host
	in          contract.MigrateDomainInput
	fingerprint string
	begun       time.Time
	migrating   bool   // the launcher was asked
	aborted     string // why, where that came before migrating; "": not aborted
	outcome     *contract.MigrationOutcome
}

func (s *session) uid() string { return s.in.Migration.UID }

// after calls f later, unless the worker is gone by then or the session has ended.
func (s *session) after(d time.Duration, f func()) {
	s.world.after(d, func() {
		if s.host.worker && s.host.own.sessions[s.uid()] == s && s.outcome == nil {
			f()
		}
	})
}

func (s *session) end(o contract.MigrationOutcome) {
	s.outcome = &o
	s.world.tracef("session of %s on %s: %s %s", s.in.VMI.Name, s.host.name, o.Result, o.Reason)
}

func (s *session) endStayed(why string) {
	s.end(contract.MigrationOutcome{Result: contract.ResultStayed, Reason: why})
}

// begin starts the session.
func (s *session) begin() {
	s.world.tracef("session of %s on %s: begins", s.in.VMI.Name, s.host.name)
	s.after(dialLag, func() {
		to := s.target()
		switch {
		case s.aborted != "":
			s.end(contract.MigrationOutcome{Result: contract.ResultStayed, Reason: s.aborted, Aborted: true})
		case to == nil:
			s.endStayed("the target does not answer")
		default:
			if to.receives == "" && to.machine.State() == lifecycle.Idle {
				to.receives = s.uid()
				to.input(lifecycle.ReceiveAsked)
			}
			s.waitForTarget()
		}
	})
}

// waitForTarget waits until the target is ready, and asks the launcher to migrate the guest.
func (s *session) waitForTarget() {
	s.after(askAgain, func() {
		to, from := s.target(), s.world.launcherOf(s.in.Pod.UID)
		switch {
		case to == nil || to.dead:
			s.endStayed("the target has gone")
		case to.receives != s.uid() || !to.prepared:
			s.endStayed("the target cannot receive the guest: " + to.message)
		case s.aborted != "":
			s.withdraw()
			s.end(contract.MigrationOutcome{Result: contract.ResultStayed, Reason: s.aborted, Aborted: true})
		case from == nil || from.dead:
			s.end(contract.MigrationOutcome{Result: contract.ResultLost, Reason: errNoLauncher.Error()})
		case !from.canMove():
			s.withdraw()
			s.endStayed("there is no guest to move")
		default:
			s.migrating = true
			from.limit = time.Duration(s.in.CompletionSeconds) * time.Second
			from.move = &move{world: s.world, uid: s.uid(), from: from, to: to}
			to.incoming = from.move
			from.input(lifecycle.LeaveAsked)
			s.follow(from.move)
		}
	})
}

// follow waits for the end of the migration in libvirt.
func (s *session) follow(m *move) {
	if !m.isOver() {
		m.follower = s
		return
	}
	s.after(resumeLag, func() {
		took := contract.MigrationStats{TotalMs: s.world.Now().Sub(s.begun).Milliseconds()}
		switch m.stage {
		case departed:
			s.resume(m, s.world.Now().Add(resumeTime))
		case remained:
			s.withdraw()
			s.end(contract.MigrationOutcome{Result: contract.ResultStayed, Reason: m.reason, Aborted: m.aborted,
				Stats: took, Mode: m.mode()})
		case endedOff:
			s.withdraw()
			s.end(contract.MigrationOutcome{Result: contract.ResultGuestEnded, Reason: "the guest has ended"})
		case vanished:
			s.end(contract.MigrationOutcome{Result: contract.ResultLost, Reason: "the launcher has gone"})
		case copying, switching, arrived:
		}
	})
}

// resume asks the target to resume the guest.
func (s *session) resume(m *move, until time.Time) {
	to := s.target()
	outcome := contract.MigrationOutcome{Result: contract.ResultSourceOff, Proof: m.proof(), Mode: m.mode(),
		Stats: contract.MigrationStats{TotalMs: s.world.Now().Sub(s.begun).Milliseconds(), DowntimeMs: 60}}
	if to != nil && !to.dead && !to.grant(s.uid(), m.paused) {
		outcome.Reason = "the target expects no guest"
		s.end(outcome)
		return
	}
	if !s.world.Now().Before(until) {
		outcome.Reason = "the target does not answer whether the guest has resumed"
		s.end(outcome)
		return
	}
	s.after(askAgain/10, func() {
		if to != nil && !to.dead && to.resumed && s.target() == to {
			d := to.domain
			outcome.Result, outcome.Target = contract.ResultMoved, &d
			s.end(outcome)
			delete(to.host.own.targets, s.uid())
			return
		}
		s.resume(m, until)
	})
}

// target returns the launcher at the other end, if its node worker accepts this migration and both nodes are connected.
func (s *session) target() *launcher {
	for _, h := range s.world.hosts {
		t := h.own.targets[s.uid()]
		if t == nil || t.source != s.fingerprint || s.in.Target.Fingerprint != h.asTarget(s.uid()) || !h.isPolling() ||
			!s.host.isPolling() {
			continue
		}
		if l := s.world.launcherOf(t.pod); l != nil && !l.dead {
			return l
		}
	}
	return nil
}

// withdraw ends the target's launcher, because no guest arrives.
func (s *session) withdraw() {
	if to := s.target(); to != nil {
		delete(to.host.own.targets, s.uid())
		to.withdraw(s.uid())
	}
}

// abort asks for the end of the session, and reports whether it was still under way.
func (s *session) abort(why string) bool {
	if s.outcome != nil {
		return false
	}
	if !s.migrating {
		s.aborted = why
		return true
	}
	if from := s.world.launcherOf(s.in.Pod.UID); from != nil && !from.dead {
		from.move.abort(why, true)
	}
	return true
}

func (h *host) asSource(uid string) string {
	return fmt.Sprintf("source-%s-%d-%s", h.name, h.own.run, uid)
}

func (h *host) asTarget(uid string) string {
	return fmt.Sprintf("target-%s-%d-%s", h.name, h.own.run, uid)
}

// sever cuts the streams that a node worker carries.
func (h *host) sever(after time.Duration, why string) {
	for _, name := range slices.Sorted(maps.Keys(h.world.hosts)) {
		other := h.world.hosts[name]
		for _, uid := range other.podUIDs() {
			l := other.pods[uid].launcher
			if l != nil && l.move != nil && (l.host == h || l.move.to.host == h) {
				l.move.sever(after, why)
			}
		}
	}
}

// proof returns the source's statement that the guest can never run there again; nil: there is none.
func (m *move) proof() *contract.MigrationProof {
	if m.stage != departed {
		return nil
	}
	return &contract.MigrationProof{By: contract.ProofProcess, Paused: m.paused}
}

func (m *move) mode() string {
	if m.disrupted {
		return contract.ModePaused
	}
	return "PreCopy"
}
