package world

import (
	"time"

	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/workflows/contract"
)

// How long the parts of a move take, beside the copying.
const (
	copies    = 1500 * time.Millisecond // a guest's memory, unless the guest says otherwise
	lastPages = 25 * time.Millisecond   // from the guest standing still until the target has it whole
	finish    = 15 * time.Millisecond   // from then until the source's QEMU is dead
	aborts    = 30 * time.Millisecond
	resumes   = 10 * time.Millisecond
	receives  = 60 * time.Millisecond // until a target's launcher is ready for a guest
	cutLag    = 10 * time.Millisecond
	// keepAlive is after which time libvirt notices that nobody answers at the other end; a connection that is cut is
	// noticed at once.
	keepAlive = 29 * time.Second
)

// stage is how far a move is.
type stage string

const (
	copying   stage = "copying"   // the guest runs at the source
	switching stage = "switching" // it stands still there, and the rest is copied
	arrived   stage = "arrived"   // the target holds all of it, and the source does not know that yet
	departed  stage = "left"      // the source's QEMU is dead, and libvirt there knows why
	remained  stage = "stayed"    // the guest is the source's
	endedOff  stage = "gone"      // it has ended at the source
	vanished  stage = "vanished"  // the source's launcher has
)

// move is a guest's way from one launcher to another, as libvirt makes it. Nobody above libvirt is needed for it to
// end, but for the streams, which node workers carry.
type move struct {
	world    *World
	uid      string // of the migration
	from, to *launcher
	stage    stage
	// severed: no stream works any more.
	severed bool
	// paused by its user: it arrives so, and stays so.
	paused  bool
	reason  string // why it has stayed
	aborted bool   // somebody has asked for that
	// disrupted: the guest stands still so that its move ends.
	disrupted bool
	// follower is the session that waits for its end; nil: none.
	follower *session
}

func (m *move) over() bool {
	switch m.stage {
	case departed, remained, endedOff, vanished:
		return true
	case copying, switching, arrived:
	}
	return false
}

func (m *move) enter(s stage) {
	m.stage = s
	if m.over() {
		m.from.domain.Migration = nil
	}
	m.world.tracef("libvirt: the move of %s from %s to %s: %s", m.from.key(), m.from.host.name, m.to.host.name, s)
	if m.over() && m.follower != nil {
		m.follower.follow(m)
	}
}

// begin is the call to libvirt at the source.
func (m *move) begin(limit time.Duration) {
	m.enter(copying)
	m.paused = m.from.domain.State == contract.DomainPaused
	m.to.change(contract.DomainPaused, contract.PausedMigration)
	takes := m.from.guest.Copies
	if takes == 0 {
		takes = copies
	}
	if limit > 0 && takes > limit {
		m.world.after(limit, func() { m.abort("Live migration has been aborted", false) })
	}
	m.world.after(takes, m.stop)
	m.tell(takes, 0)
}

// tellEach is how often a launcher says how far it is.
const tellEach = 10 * time.Second

// tell has the source's launcher say how much is copied, from time to time.
func (m *move) tell(takes, done time.Duration) {
	m.world.after(tellEach, func() {
		if m.over() {
			return
		}
		done += tellEach
		whole := m.from.domain.GuestMemory
		copied := int64(float64(whole) * min(1, done.Seconds()/takes.Seconds()))
		m.from.domain.Migration = &contract.MigrationProgress{UID: m.uid, Role: "source", Total: whole,
			Processed: copied, Remaining: whole - copied, Rate: int64(float64(whole) / takes.Seconds()), Iteration: 1}
		m.from.change(m.from.domain.State, m.from.domain.Reason)
		m.tell(takes, done)
	})
}

// stop has the guest stand still.
func (m *move) stop() {
	if m.stage != copying || m.severed {
		return
	}
	m.enter(switching)
	if !m.paused {
		m.from.change(contract.DomainPaused, contract.PausedMigration)
	}
	m.world.after(lastPages, m.arrive)
}

// arrive is libvirt's Finish at the target: the guest is there, and paused.
func (m *move) arrive() {
	if m.stage != switching || m.severed {
		return
	}
	m.enter(arrived)
	m.to.change(contract.DomainPaused, "")
	m.to.input(lifecycle.Arrived)
	if m.to.granted {
		m.to.input(lifecycle.Granted)
	}
	m.world.after(finish, m.leave)
}

// leave is Finish's answer at the source.
func (m *move) leave() {
	if m.stage != arrived || m.severed {
		return
	}
	m.enter(departed)
	m.from.running = false
	m.world.domainEnded(m.from)
	m.from.change(contract.DomainShutoff, contract.ReasonMigrated)
	m.from.input(lifecycle.Left)
}

// sever ends the streams; libvirt at both ends notices after a while.
func (m *move) sever(after time.Duration, why string) {
	if m.over() || m.severed {
		return
	}
	m.severed = true
	m.world.tracef("libvirt: the streams of the move of %s are cut: %s", m.from.key(), why)
	m.world.after(after, func() {
		m.abandon()
		m.stay(why)
	})
}

// abort asks libvirt to; from a certain point on it is too late for that.
func (m *move) abort(why string, asked bool) {
	m.world.after(aborts, func() {
		if m.stage == copying && !m.severed {
			m.aborted = asked
			m.abandon()
			m.stay(why)
		}
	})
}

// abandon is the target that hears that nothing more comes. What it has whole it keeps.
func (m *move) abandon() {
	if m.to.machine.State() == lifecycle.Receiving {
		m.to.input(lifecycle.GuestGone)
	}
}

// stay: the guest goes on where it was.
func (m *move) stay(why string) {
	if m.over() {
		return
	}
	m.enter(remained)
	m.reason = why
	if !m.paused && m.from.domain.State == contract.DomainPaused {
		m.from.change(contract.DomainRunning, "")
	}
	m.from.input(lifecycle.Stayed)
}

// ended is the end of the guest at its source, or of the launcher there.
func (m *move) ended(s stage) {
	if m.over() {
		return
	}
	m.enter(s)
	if !m.severed { // else that is when the target hears of it
		m.world.after(cutLag, m.abandon)
	}
}

// disrupt halts the guest so that its move ends.
func (m *move) disrupt() {
	if m.stage != copying || m.disrupted {
		return
	}
	m.disrupted = true
	if !m.paused {
		m.from.change(contract.DomainPaused, contract.PausedMigration)
	}
	m.world.after(time.Second, m.stop)
}

// movable says that a guest is in a state that libvirt moves.
func (l *launcher) movable() bool {
	return l.running && l.machine.State() == lifecycle.Running && (l.domain.State == contract.DomainRunning ||
		l.domain.State == contract.DomainPaused && l.domain.Reason == "")
}

// moves says that the guest is being moved, or is not yet whole here.
func (l *launcher) moves() bool {
	switch l.machine.State() {
	case lifecycle.Receiving, lifecycle.Held, lifecycle.Leaving, lifecycle.LeavingStop:
		return true
	default:
		return l.granted && !l.resumed
	}
}

// grant lets the guest go on that was received; false: no guest of that migration is expected here.
func (l *launcher) grant(uid string, paused bool) bool {
	if l.receives != uid {
		return false
	}
	if !l.granted {
		l.granted, l.staysPaused = true, paused
		if l.machine.State() == lifecycle.Held {
			l.input(lifecycle.Granted)
		}
	}
	return true
}

// resume is the guest going on at the target.
func (l *launcher) resume() {
	l.after(resumes, func() {
		l.running, l.resumed = true, true
		l.world.domainGoesOn(l)
		if l.staysPaused {
			l.change(contract.DomainPaused, "")
		} else {
			l.change(contract.DomainRunning, "")
		}
	})
}

// withdraw ends a target; it says why not, where the guest may run there.
func (l *launcher) withdraw(uid string) (refused string) {
	switch {
	case l.granted:
		return "the guest may go on here already"
	case l.receives != "" && l.receives != uid, l.receives == "" && l.machine.State() != lifecycle.Idle:
		return "no guest of that migration is expected here"
	case l.machine.State() == lifecycle.Idle:
		l.input(lifecycle.Stop)
	default:
		l.input(lifecycle.Withdraw)
	}
	return ""
}
