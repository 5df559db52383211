package probe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/domainstate"
	"github.com/virtflow/virtflow/launcher/probe"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/launcher/server"
)

// guest is an agent that runs "true" and "false" with exit codes of their own.
type guest struct{ silent bool }

func (g guest) AgentCommand(command string, _ time.Duration) (string, error) {
	if g.silent {
		return "", errors.New("QEMU guest agent is not connected")
	}
	var c struct {
		Execute   string `json:"execute"`
		Arguments struct {
			Path string   `json:"path"`
			Args []string `json:"arg"`
			PID  int      `json:"pid"`
		} `json:"arguments"`
	}
	if err := json.Unmarshal([]byte(command), &c); err != nil {
		return "", err
	}
	switch {
	case c.Execute == "guest-ping":
		return `{"return":{}}`, nil
	case c.Execute == "guest-exec" && c.Arguments.Path == "true":
		return `{"return":{"pid":1}}`, nil
	case c.Execute == "guest-exec" && c.Arguments.Path == "big":
		return `{"return":{"pid":3}}`, nil
	case c.Execute == "guest-exec":
		return `{"return":{"pid":2}}`, nil
	case c.Arguments.PID == 1:
		return `{"return":{"exited":true,"exitcode":0,"out-data":"b2s="}}`, nil
	case c.Arguments.PID == 3:
		return `{"return":{"exited":true,"exitcode":256}}`, nil
	default:
		return `{"return":{"exited":true,"exitcode":7}}`, nil
	}
}

func run(t *testing.T, g guest, arguments ...string) (output string, err error) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "l.sock")
	s := server.New("test", nil, domainstate.New(), server.Guest{Agent: g})
	require.NoError(t, s.Listen(socket))
	defer s.Stop()
	var out bytes.Buffer
	cmd := probe.NewCommand()
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"--socket", socket, "--timeout-seconds", "5"}, arguments...))
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		guest     guest
		arguments []string
		code      int
	}{
		"ping":                               {guest{}, []string{"--guest-agent-ping"}, 0},
		"ping without an agent":              {guest{silent: true}, []string{"--guest-agent-ping"}, 1},
		"success":                            {guest{}, []string{"--command", "true"}, 0},
		"exit code of the guest":             {guest{}, []string{"--command", "false", "--", "-a", "b"}, 7},
		"a code that would be cut to 0":      {guest{}, []string{"--command", "big"}, 1},
		"exec without an agent":              {guest{silent: true}, []string{"--command", "true"}, 1},
		"neither":                            {guest{}, nil, 1},
		"a ping and a command contradict it": {guest{}, []string{"--guest-agent-ping", "--command", "true"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, c.guest, c.arguments...)
			require.Equal(t, c.code, probe.ExitCode(err), "%v", err)
		})
	}
}

func TestOutputIsPassedOn(t *testing.T) {
	out, err := run(t, guest{}, "--command", "true")
	require.NoError(t, err)
	require.Equal(t, "ok", out)
}

// mover is a launcher of which only its migration is known.
type mover struct {
	server.Mover
	status *rpc.MigrationStatusResponse
}

func (m mover) MigrationStatus(context.Context) (*rpc.MigrationStatusResponse, error) {
	return m.status, nil
}

func TestWhetherAGuestHasArrived(t *testing.T) {
	const source, target = rpc.MigrationRole_MIGRATION_ROLE_SOURCE, rpc.MigrationRole_MIGRATION_ROLE_TARGET
	for name, c := range map[string]struct {
		status *rpc.MigrationStatusResponse
		want   int
	}{
		"nothing is received yet": {&rpc.MigrationStatusResponse{}, 1},
		"it is being received":    {&rpc.MigrationStatusResponse{Role: target, UnderWay: true}, 1},
		"it waits for its proof":  {&rpc.MigrationStatusResponse{Role: target, Held: true}, 1},
		"it is about to resume":   {&rpc.MigrationStatusResponse{Role: target, Granted: true}, 1},
		"it runs":                 {&rpc.MigrationStatusResponse{Role: target, Granted: true, Resumed: true}, 0},
		"it migrates again":       {&rpc.MigrationStatusResponse{Role: source, UnderWay: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "l.sock")
			s := server.New("test", nil, domainstate.New(), server.Guest{})
			s.Mover = mover{status: c.status}
			require.NoError(t, s.Listen(socket))
			defer s.Stop()
			cmd := probe.NewCommand()
			cmd.SetArgs([]string{"--socket", socket, "--arrived"})
			require.Equal(t, c.want, probe.ExitCode(cmd.ExecuteContext(t.Context())))
		})
	}
}
