package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Channel is the connection to the agent. Package libvirtd implements it.
type Channel interface {
	// AgentCommand sends one command, as JSON, and returns the answer. The timeout counts in whole seconds, at least
	// one. The error wraps guest.ErrSilent when the agent did not answer.
	AgentCommand(command string, timeout time.Duration) (string, error)
}

// ErrTimeout means that a command in the guest did not end in time. The guest does not end it.
var ErrTimeout = errors.New("the command did not end in time")

// call runs a command of the agent and reads its answer into answer, which may be nil.
func call(c Channel, name string, arguments map[string]any, timeout time.Duration, answer any) error {
	command := map[string]any{"execute": name}
	if arguments != nil {
		command["arguments"] = arguments
	}
	text, err := json.Marshal(command)
	if err != nil {
		return fmt.Errorf("sending %s to the guest's agent: %w", name, err)
	}
	said, err := c.AgentCommand(string(text), max(timeout, time.Second))
	if err != nil {
		return fmt.Errorf("sending %s to the guest's agent: %w", name, err)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(said), &struct {
		Return any `json:"return"`
	}{answer}); err != nil {
		return fmt.Errorf("reading the agent's answer to %s: %w", name, err)
	}
	return nil
}

// Ping checks that the agent answers.
func Ping(c Channel, timeout time.Duration) error { return call(c, "guest-ping", nil, timeout, nil) }

// Result has the outcome of a command in the guest.
type Result struct {
	// ExitCode of the command, or 128 plus the number of the signal that ended it.
	ExitCode int32
	// Output has its standard output, then its standard error, cut to MaxOutput bytes.
	Output []byte
}

// MaxOutput is the size in bytes to which a command's output is cut. The kubelet's limit for a probe's output is the
// same.
const MaxOutput = 10 << 10

const (
	firstPause = 20 * time.Millisecond
	longPause  = time.Second
	// signalBase is added to a signal's number, as shells do.
	signalBase = 128
)

// Exec runs a command in the guest and waits for its end. After the timeout it returns ErrTimeout.
func Exec(ctx context.Context, c Channel, command string, arguments []string, timeout time.Duration) (Result, error) {
	end := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	var started struct {
		PID int64 `json:"pid"`
	}
	order := map[string]any{"path": command, "capture-output": true}
	if len(arguments) > 0 {
		order["arg"] = arguments
	}
	if err := call(c, "guest-exec", order, timeout, &started); err != nil {
		return Result{}, err
	}
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		var status struct {
			Exited   bool   `json:"exited"`
			ExitCode *int32 `json:"exitcode"`
			Signal   *int32 `json:"signal"`
			Out      []byte `json:"out-data"` // base64 in JSON
			Err      []byte `json:"err-data"`
		}
		if err := call(c, "guest-exec-status", map[string]any{"pid": started.PID}, time.Until(end),
			&status); err != nil {
			return Result{}, err
		}
		if status.Exited {
			r := Result{Output: append(status.Out[:min(MaxOutput, len(status.Out))], status.Err...)}
			r.Output = r.Output[:min(MaxOutput, len(r.Output))]
			switch {
			case status.ExitCode != nil:
				r.ExitCode = *status.ExitCode
			case status.Signal != nil:
				r.ExitCode = signalBase + *status.Signal
			}
			return r, nil
		}
		select {
		case <-ctx.Done():
			return Result{}, fmt.Errorf("%s: %w", strings.TrimSpace(clean(command)), ErrTimeout)
		case <-time.After(pause):
		}
	}
}
