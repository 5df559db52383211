package supervise

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// Spec describes a process and how it is kept running.
type Spec struct {
	// Name is unique in its supervisor, and names the log file.
	Name string
	// Args are the program's path and its arguments.
	Args []string
	// Env is added to the supervisor's environment.
	Env []string
	// Fingerprint stands for what the process reads when it starts; a running process with another one is replaced.
	Fingerprint string
	// Isolated gives the process new network, mount, PID and UTS namespaces.
	Isolated bool
	// Grace is how long it may take from SIGTERM to its end; 0 is SIGKILL at once.
	Grace time.Duration
	// Last is for what others depend on: it is stopped after all the rest.
	Last bool
	// Needs returns when the process may start. It is asked before every start.
	Needs func(context.Context) error
	// Started is called with the process's ID after each start, and with
	// adopted set when a running process was taken over.
	Started func(ctx context.Context, pid int, adopted bool) error
}

// hash stands for everything that a running process cannot change any more.
func (s Spec) hash() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %t", s.Args, s.Env, s.Fingerprint, s.Isolated))
	return hex.EncodeToString(sum[:8])
}

// State is the state of a process.
type State string

// The states of a process.
const (
	Waiting State = "waiting" // for what it needs
	Running State = "running"
	Backoff State = "backoff" // it ended, and is started again a little later
	Stopped State = "stopped"
)

// Status is the current status of a process.
type Status struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// PID is as the supervisor sees it: a node's supervisor has its own PID namespace.
	PID int `json:"pid,omitempty"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// Restarts counts from the supervisor's start.
	Restarts int `json:"restarts"`
	// LastEnd describes its last end, or why it does not start.
	LastEnd string `json:"lastEnd,omitempty"`
	Log     string `json:"log"`
}
