package launcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// outside is a guest as operations see it. Calls whose fields are not set must not happen.
type outside struct {
	Hypervisor
	show func(rpc.DomainState)
	said chan string                          // what was done, in the order in which it ended
	say  func(command string) (string, error) // the agent
}

func (o *outside) done(what string) error {
	o.said <- what
	return nil
}

func (o *outside) Suspend() error {
	o.show(rpc.DomainState_DOMAIN_STATE_PAUSED)
	return o.done("suspend")
}

func (o *outside) Resume() error {
	o.show(rpc.DomainState_DOMAIN_STATE_RUNNING)
	return o.done("resume")
}

func (o *outside) Reset() error  { return o.done("reset") }
func (o *outside) Reboot() error { return o.done("power button") }

func (o *outside) AgentCommand(command string, _ time.Duration) (string, error) {
	answer, err := o.say(command)
	o.said <- command
	return answer, err
}

// thaws is a poller that believes a reboot at once.
type thaws struct{ *Launcher }

func (thaws) Connected(bool) {}
func (thaws) Operated()      {}
func (l thaws) Rebooted()    { l.domain.Update(func(d *rpc.Domain) { d.Frozen = false }) }

func operated(t *testing.T, agent bool, say func(string) (string, error)) (*Launcher, *outside) {
	t.Helper()
	o := &outside{said: make(chan string, 16), say: say}
	l := New(Config{}, nil, Tools{Hypervisor: o}, zerolog.Nop())
	l.poller = thaws{l}
	o.show = func(s rpc.DomainState) { l.domain.Update(func(d *rpc.Domain) { d.State = s }) }
	l.domain.Update(func(d *rpc.Domain) { d.State, d.AgentConnected = rpc.DomainState_DOMAIN_STATE_RUNNING, agent })
	return l, o
}

func (l *Launcher) ask(ctx context.Context, o rpc.Operation) error {
	_, err := l.operate(ctx, &rpc.OperateRequest{Operation: o})
	return err
}

func TestDomainOperationsDoNotWaitForAgent(t *testing.T) {
	for _, slow := range []rpc.Operation{rpc.Operation_OPERATION_SOFT_REBOOT, rpc.Operation_OPERATION_FREEZE,
		rpc.Operation_OPERATION_THAW} {
		t.Run(slow.String(), func(t *testing.T) {
			asked, hang := make(chan struct{}, 16), make(chan struct{})
			l, o := operated(t, true, func(string) (string, error) {
				asked <- struct{}{}
				<-hang
				return "", guest.ErrSilent
			})
			ended := make(chan error, 1)
			go func() { ended <- l.ask(t.Context(), slow) }()
			<-asked
			short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			for operation, want := range map[rpc.Operation]string{
				rpc.Operation_OPERATION_RESET: "reset", rpc.Operation_OPERATION_PAUSE: "suspend",
				rpc.Operation_OPERATION_UNPAUSE: "resume",
			} {
				require.NoError(t, l.ask(short, operation))
				require.Equal(t, want, <-o.said)
			}
			// Operations of the agent do wait, and are refused with that reason.
			gone, leave := context.WithCancel(t.Context())
			leave()
			require.Equal(t, codes.Unavailable, status.Code(l.ask(gone, rpc.Operation_OPERATION_THAW)))
			close(hang)
			require.Error(t, <-ended)
		})
	}
}

// TestResetThaws: the agent need not report it.
func TestResetThaws(t *testing.T) {
	l, o := operated(t, false, nil)
	l.domain.Update(func(d *rpc.Domain) { d.Frozen = true })
	d, err := l.operate(t.Context(), &rpc.OperateRequest{Operation: rpc.Operation_OPERATION_RESET})
	require.NoError(t, err)
	require.Equal(t, "reset", <-o.said)
	require.False(t, d.GetFrozen())
}

// TestThawsGuestThatArrivesFrozen: the launcher that would have thawed it is at the source. A guest that was frozen
// here thaws at the time that the caller gave.
func TestThawsGuestThatArrivesFrozen(t *testing.T) {
	thawed := make(chan struct{}, 2)
	thaw := func() { thawed <- struct{}{} }
	var arrived, own thawing
	arrived.adopt(time.Millisecond, thaw)
	<-thawed
	own.set(0, nil)
	own.adopt(time.Nanosecond, thaw)
	require.Nil(t, own.timer, "it is frozen without a limit")
	l, _ := operated(t, true, nil)
	l.recordAgent(true, nil, false)
	require.Nil(t, l.operations.thawing.timer)
	l.recordAgent(true, nil, true)
	require.NotNil(t, l.operations.thawing.timer)
	l.operations.thawing.set(0, nil)
}

func TestSoftRebootIsDoneOnceSent(t *testing.T) {
	disabled := errors.New("the command guest-shutdown has been disabled")
	for name, c := range map[string]struct {
		agent      bool
		ping, down error
		said       []string // parts
		err        error
	}{
		"without an agent": {false, nil, nil, []string{"power button"}, nil},
		"an agent that reboots": {true, nil, fmt.Errorf("%w: it went away", guest.ErrSilent),
			[]string{"guest-ping", `"mode":"reboot"`}, nil},
		"an agent that says yes":     {true, nil, nil, []string{"guest-ping", "guest-shutdown"}, nil},
		"an agent that refuses":      {true, nil, disabled, []string{"guest-ping", "guest-shutdown"}, disabled},
		"an agent that is not there": {true, guest.ErrSilent, nil, []string{"guest-ping"}, guest.ErrSilent},
		"libvirt that is not there":  {true, guest.ErrUnavailable, nil, []string{"guest-ping"}, guest.ErrUnavailable},
		"libvirt that goes in between": {true, nil, guest.ErrUnavailable, []string{"guest-ping", "guest-shutdown"},
			guest.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			l, o := operated(t, c.agent, func(command string) (string, error) {
				if strings.Contains(command, "guest-ping") {
					return `{"return":{}}`, c.ping
				}
				return `{"return":{}}`, c.down
			})
			err := l.ask(t.Context(), rpc.Operation_OPERATION_SOFT_REBOOT)
			for _, part := range c.said {
				require.Contains(t, <-o.said, part)
			}
			require.Empty(t, o.said)
			switch {
			case c.err == nil:
				require.NoError(t, err)
			case errors.Is(c.err, guest.ErrUnavailable):
				require.Equal(t, codes.Unavailable, status.Code(err))
			default:
				require.Equal(t, codes.FailedPrecondition, status.Code(err))
				require.ErrorContains(t, err, c.err.Error())
			}
		})
	}
}
