package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// marker is the first argument that makes this program the first process of a sandbox.
const marker = "first-process-of-a-sandbox"

// Mount shows a host directory, writable, at an absolute path inside the sandbox. The path must exist in the root.
type Mount struct{ Host, Inside string }

// Plan describes what runs in a sandbox. It must be possible to send it to another process.
type Plan struct {
	Root     string  // unpacked root file system, mounted read-only inside
	Mounts   []Mount // over the root
	UID, GID int
	Env      []string
	Argv     []string // what runs, until it ends or the sandbox is killed
}

// Command prepares a sandbox for a plan. It needs root. Killing its process ends everything inside, as it is the first
// process of its own process namespace.
func Command(ctx context.Context, plan Plan) (*exec.Cmd, error) {
	encoded, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("encode the sandbox's plan: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, marker, string(encoded))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS |
			syscall.CLONE_NEWIPC,
		Pdeathsig: syscall.SIGKILL,
	}
	return cmd, nil
}
