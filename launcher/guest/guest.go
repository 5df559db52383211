package guest

import "errors"

var (
	// ErrUnavailable means that libvirt does not answer right now; another attempt may succeed.
	ErrUnavailable = errors.New("libvirt does not answer")
	// ErrSilent means that the guest's agent did not answer a command. The outcome is unknown: the guest may carry it
	// out.
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
	Gone      State = "Gone"      // ended for an unknown reason
	Migrated  State = "Migrated"  // it was migrated to another launcher
)

// Ended reports whether the domain ran and does no more.
func (s State) Ended() bool {
	return s == Off || s == Killed || s == Crashed || s == Gone || s == Migrated
}

// Live reports whether QEMU exists.
func (s State) Live() bool { return s == Running || s == Paused || s == GoingDown }

// PauseReason is the reason why a domain is Paused.
type PauseReason string

// Reasons. After a disk error the guest is paused instead of getting the error, so that its file systems stay intact.
const (
	ByUser      PauseReason = "User"
	ByIOError   PauseReason = "IOError"
	ByNoSpace   PauseReason = "NoSpace" // the storage of a disk is full
	ByMigration PauseReason = "Migration"
	ByOther     PauseReason = "Other"
)

// Status has the facts about the domain at one moment.
type Status struct {
	State          State
	PauseReason    PauseReason // of Paused
	AgentConnected bool
	MachineType    string // as QEMU has it: pc-q35-7.2
}
