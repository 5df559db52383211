package guest

import "errors"

//nolint:gochecknoglobals // constant errors
var (
	// ErrUnavailable says that libvirt does not answer right now; it may again in a moment.
	ErrUnavailable = errors.New("libvirt does not answer")
	// ErrSilent says that the guest's agent did not answer a command. The guest may have done it, or do it yet.
	ErrSilent = errors.New("the guest's agent does not answer")
)

// State of the domain.
type State string

// States. The last five are ends: a domain that reached one is not started again in this pod.
const (
	Absent    State = "Absent"    // never started
	Running   State = "Running"   // its virtual CPUs run
	Paused    State = "Paused"    // they do not
	GoingDown State = "GoingDown" // the guest is off and QEMU is ending
	Off       State = "Off"       // powered off by the guest
	Killed    State = "Killed"    // destroyed from outside
	Crashed   State = "Crashed"   // it panicked, or QEMU died
	Gone      State = "Gone"      // ended, nobody knows why
	Migrated  State = "Migrated"  // it was given to another launcher
)

// Ended says that the domain ran and does no more.
func (s State) Ended() bool {
	return s == Off || s == Killed || s == Crashed || s == Gone || s == Migrated
}

// Live says that QEMU exists.
func (s State) Live() bool { return s == Running || s == Paused || s == GoingDown }

// PauseReason says why a domain is Paused.
type PauseReason string

// Reasons. An error of a disk pauses the guest instead of being told to it, so that its file systems stay whole.
const (
	ByUser      PauseReason = "User"
	ByIOError   PauseReason = "IOError"
	ByNoSpace   PauseReason = "NoSpace" // what is behind a disk is full
	ByMigration PauseReason = "Migration"
	ByOther     PauseReason = "Other"
)

// Status is what is known of the domain at one moment.
type Status struct {
	State          State
	PauseReason    PauseReason // of Paused
	AgentConnected bool
	MachineType    string // as QEMU has it: pc-q35-7.2
}
