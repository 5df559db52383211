package backup_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/backup"
	"github.com/virtflow/virtflow/launcher/domainstate"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/launcher/server"
)

// TestHooks: a guest that runs and has an agent is frozen, for five minutes at most, and thawed. Another guest stays
// unchanged. A failure is an error, so that the backup reports it.
func TestHooks(t *testing.T) {
	running := func(d *rpc.Domain) { d.State, d.AgentConnected = rpc.DomainState_DOMAIN_STATE_RUNNING, true }
	for name, c := range map[string]struct {
		command string
		guest   func(*rpc.Domain)
		fails   bool
		want    *rpc.OperateRequest
		thaws   bool
		says    string
	}{
		"freeze": {command: "freeze", guest: running,
			want: &rpc.OperateRequest{Operation: rpc.Operation_OPERATION_FREEZE, ThawAfterSeconds: 300}},
		"thaw": {command: "thaw", guest: running,
			want: &rpc.OperateRequest{Operation: rpc.Operation_OPERATION_THAW}},
		"it fails": {command: "freeze", guest: running, fails: true, thaws: true,
			want: &rpc.OperateRequest{Operation: rpc.Operation_OPERATION_FREEZE, ThawAfterSeconds: 300}},
		"no agent": {command: "freeze", says: "no agent",
			guest: func(d *rpc.Domain) { d.State = rpc.DomainState_DOMAIN_STATE_RUNNING }},
		"paused": {command: "freeze", says: "does not run", guest: func(d *rpc.Domain) {
			d.State, d.AgentConnected = rpc.DomainState_DOMAIN_STATE_PAUSED, true
		}},
		"frozen, and paused since": {command: "thaw", fails: true, guest: func(d *rpc.Domain) {
			d.State, d.Frozen = rpc.DomainState_DOMAIN_STATE_PAUSED, true
		}, want: &rpc.OperateRequest{Operation: rpc.Operation_OPERATION_THAW}},
		"not started": {command: "thaw", guest: func(*rpc.Domain) {}, says: "does not run"},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "l.sock")
			domain := domainstate.New()
			domain.Update(c.guest)
			asked, thawed := (*rpc.OperateRequest)(nil), false
			s := server.New("test", nil, domain, server.Guest{})
			s.Operator = func(_ context.Context, r *rpc.OperateRequest) (*rpc.Domain, error) {
				if asked != nil {
					thawed = r.GetOperation() == rpc.Operation_OPERATION_THAW
				} else {
					asked = r
				}
				if c.fails {
					return nil, status.Error(codes.Unavailable, "the guest's agent says nothing")
				}
				return domain.Domain(), nil
			}
			require.NoError(t, s.Listen(socket))
			defer s.Stop()
			out, err := run(t, c.command, socket)
			if c.fails {
				require.ErrorContains(t, err, "the guest's agent says nothing")
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, c.want.GetOperation(), asked.GetOperation())
			require.Equal(t, c.want.GetThawAfterSeconds(), asked.GetThawAfterSeconds())
			require.Contains(t, out, c.says)
			require.Equal(t, c.thaws, thawed, "it may still freeze later")
		})
	}
	out, err := run(t, "freeze", filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	require.Contains(t, out, "has not started")
}

func run(t *testing.T, name, socket string) (out string, err error) {
	t.Helper()
	for _, cmd := range backup.Commands() {
		if cmd.Name() != name {
			continue
		}
		var b bytes.Buffer
		cmd.SetOut(&b)
		cmd.SetArgs([]string{"--socket", socket})
		err = cmd.ExecuteContext(t.Context())
		return b.String(), err
	}
	t.Fatalf("there is no command %s", name)
	return "", nil
}
