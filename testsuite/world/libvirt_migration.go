package world

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/lifecycle"
)

// Durations of the parts of a migration, beside the copying.
const (
	copies    = 1500 * time.Millisecond // of a guest's memory, unless Guest.Copies is set
	lastPages = 25 * time.Millisecond   // from the guest's pause until the target has all of it
	finish    = 15 * time.Millisecond   // from then until the source's QEMU is dead
	aborts    = 30 * time.Millisecond
	resumes   = 10 * time.Millisecond
	receives  = 60 * time.Millisecond // until a target's launcher can receive a guest
	cutLag    = 10 * time.Millisecond
	// keepAlive is the time after which libvirt notices that the other end does not answer. It notices a closed
	// connection at once.
	keepAlive = 29 * time.Second
)

// stage is the progress of a migration in libvirt.
type stage string

const (
	copying   stage = "copying"   // the guest runs at the source
	switching stage = "switching" // it is paused there, and the rest is copied
	arrived   stage = "arrived"   // the target has all of it, and the source does not know that yet
	departed  stage = "left"      // the source's QEMU is dead, and libvirt there knows why
	remained  stage = "stayed"    // the guest stays at the source
	endedOff  stage = "gone"      // the guest has ended at the source
	vanished  stage = "vanished"  // the source's launcher has ended
)

// move is a guest's migration from one launcher to another in libvirt. It ends without any process above libvirt,
// except that node workers carry the streams.
type move struct {
	world    *World
	uid      string // of the migration
	from, to *launcher
	stage    stage
	// severed: the streams are cut.
	severed bool
	// paused: the user had paused the guest. It arrives and stays paused.
	paused  bool
	reason  string // why the guest has stayed
	aborted bool   // on request
	// disrupted: the guest is paused so that the copy can end.
	disrupted bool
	// follower is the session that waits for the end; nil: none.
	follower *session
}

func (m *move) isOver() bool {
	switch m.stage {
	case departed, remained, endedOff, vanished:
		return true
	case copying, switching, arrived:
	}
	return false
}

func (m *move) enter(s stage) {
	m.stage = s
	if m.isOver() {
		m.from.domain.Migration = nil
	}
	m.world.tracef("libvirt: the move of %s from %s to %s: %s", m.from.key(), m.from.host.name, m.to.host.name, s)
	if m.isOver() && m.follower != nil {
		m.follower.follow(m)
	}
}

// begin starts the migration at the source's libvirt.
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
	m.reportProgress(takes, 0)
}

// progressEach is the interval of a launcher's progress reports.
const progressEach = 10 * time.Second

// reportProgress lets the source's launcher report from time to time how much is copied.
func (m *move) reportProgress(takes, done time.Duration) {
	m.world.after(progressEach, func() {
		if m.isOver() {
			return
		}
		done += progressEach
		whole := m.from.domain.GuestMemory
		copied := int64(float64(whole) * min(1, done.Seconds()/takes.Seconds()))
		m.from.domain.Migration = &contract.MigrationProgress{UID: m.uid, Role: "source", Total: whole,
			Processed: copied, Remaining: whole - copied, Rate: int64(float64(whole) / takes.Seconds()), Iteration: 1}
		m.from.change(m.from.domain.State, m.from.domain.Reason)
		m.reportProgress(takes, done)
	})
}

// stop pauses the guest for the switch-over.
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

// leave is the arrival of Finish's answer at the source.
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

// sever cuts the streams; libvirt notices at both ends after a while.
func (m *move) sever(after time.Duration, why string) {
	if m.isOver() || m.severed {
		return
	}
	m.severed = true
	m.world.tracef("libvirt: the streams of the move of %s are cut: %s", m.from.key(), why)
	m.world.after(after, func() {
		m.abandon()
		m.stay(why)
	})
}

// abort asks libvirt to abort, which it refuses after the switch-over.
func (m *move) abort(why string, asked bool) {
	m.world.after(aborts, func() {
		if m.stage == copying && !m.severed {
			m.aborted = asked
			m.abandon()
			m.stay(why)
		}
	})
}

// abandon ends the target's side when the streams are cut. A guest that has arrived completely stays.
func (m *move) abandon() {
	if m.to.machine.State() == lifecycle.Receiving {
		m.to.input(lifecycle.GuestGone)
	}
}

// stay lets the guest continue at the source.
func (m *move) stay(why string) {
	if m.isOver() {
		return
	}
	m.enter(remained)
	m.reason = why
	if !m.paused && m.from.domain.State == contract.DomainPaused {
		m.from.change(contract.DomainRunning, "")
	}
	m.from.input(lifecycle.Stayed)
}

// ended ends the migration because the guest, or the launcher, has ended at the source.
func (m *move) ended(s stage) {
	if m.isOver() {
		return
	}
	m.enter(s)
	if !m.severed { // else the target notices when the streams are cut
		m.world.after(cutLag, m.abandon)
	}
}

// disrupt pauses the guest so that the copy can end.
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

// canMove reports whether libvirt would migrate the guest in its present state.
func (l *launcher) canMove() bool {
	return l.running && l.machine.State() == lifecycle.Running && (l.domain.State == contract.DomainRunning ||
		l.domain.State == contract.DomainPaused && l.domain.Reason == "")
}

// isMoving reports whether the guest is being migrated from here, or has not completely arrived here.
func (l *launcher) isMoving() bool {
	switch l.machine.State() {
	case lifecycle.Receiving, lifecycle.Held, lifecycle.Leaving, lifecycle.LeavingStop:
		return true
	default:
		return l.granted && !l.resumed
	}
}

// grant lets the received guest resume, and reports whether a guest of that migration is expected here.
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

// resume resumes the guest at the target.
func (l *launcher) resume() {
	l.after(resumes, func() {
		l.running, l.resumed = true, true
		l.world.domainMoved(l)
		if l.staysPaused {
			l.change(contract.DomainPaused, "")
		} else {
			l.change(contract.DomainRunning, "")
		}
	})
}

// withdraw ends a target. It returns a reason where it refuses, because the guest may run there.
func (l *launcher) withdraw(uid string) (refused string) {
	switch {
	case l.granted:
		return "the guest may run here already"
	case l.receives != "" && l.receives != uid, l.receives == "" && l.machine.State() != lifecycle.Idle:
		return "no guest of that migration is expected here"
	case l.machine.State() == lifecycle.Idle:
		l.input(lifecycle.Stop)
	default:
		l.input(lifecycle.Withdraw)
	}
	return ""
}
