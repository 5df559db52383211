package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/agent"
	"github.com/virtflow/virtflow/launcher/guest"
)

// talkative answers every command.
func talkative() *scripted {
	return &scripted{answer: map[string][]string{
		"guest-info": {goodCommands}, "guest-fsfreeze-status": {`{"return":"thawed"}`},
		"guest-get-host-name": {`{"return":{"host-name":"web"}}`},
		"guest-get-osinfo":    {`{"return":{"id":"debian"}}`},
		"guest-get-timezone":  {`{"return":{"zone":"UTC","offset":0}}`},
		"guest-get-users":     {`{"return":[{"user":"root","login-time":1}]}`},
		"guest-get-fsinfo":    {`{"return":[{"name":"vda1","mountpoint":"/","type":"ext4","used-bytes":1,"total-bytes":2,"disk":[]}]}`},
	}}
}

func TestKeepsDetailsOfFrozenGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := talkative()
		d := agent.NewDetails(s)
		first, err := d.Ask(t.Context())
		require.NoError(t, err)
		require.Equal(t, "root", first.GetUsers()[0].GetName())

		// While frozen, the agent supports hardly any command.
		for _, command := range []string{"guest-get-host-name", "guest-get-osinfo", "guest-get-timezone",
			"guest-get-users", "guest-get-fsinfo"} {
			s.set(command)
		}
		s.set("guest-fsfreeze-status", `{"return":"frozen"}`)
		time.Sleep(time.Minute)
		frozen, err := d.Ask(t.Context())
		require.NoError(t, err)
		require.Equal(t, "frozen", frozen.GetFreezeStatus())
		require.Equal(t, "/", frozen.GetFileSystems()[0].GetMountPoint())
		require.Equal(t, "root", frozen.GetUsers()[0].GetName())
		require.Equal(t, "debian", frozen.GetOs().GetId())
		require.Empty(t, frozen.GetUsersUnknown()+frozen.GetFileSystemsUnknown())
		require.Equal(t, "thawed", first.GetFreezeStatus(), "what was answered is not changed")

		s.set("guest-get-fsinfo", `{"return":[]}`)
		time.Sleep(time.Minute)
		thawed, err := d.Ask(t.Context())
		require.NoError(t, err)
		require.Empty(t, thawed.GetFileSystems(), "an empty list is an answer")
	})
}

func TestMarksMissingListAsUnknown(t *testing.T) {
	s := talkative()
	s.set("guest-get-users")
	s.set("guest-get-fsinfo")
	d, err := agent.NewDetails(s).Ask(t.Context())
	require.NoError(t, err)
	require.Contains(t, d.GetUsersUnknown(), "guest-get-users has not been found")
	require.Contains(t, d.GetFileSystemsUnknown(), "guest-get-fsinfo has not been found")
}

// patient answers when the test lets it, and counts.
type patient struct {
	*scripted
	asked atomic.Int32
	let   chan struct{}
}

func (p *patient) AgentCommand(command string, timeout time.Duration) (string, error) {
	p.asked.Add(1)
	<-p.let
	return p.scripted.AgentCommand(command, timeout)
}

func TestConcurrentCallersShareOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patient{scripted: talkative(), let: make(chan struct{})}
		d := agent.NewDetails(p)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				got, err := d.Ask(t.Context())
				require.NoError(t, err)
				require.Equal(t, "web", got.GetHostname())
			})
		}
		gone, leave := context.WithCancel(t.Context())
		all.Go(func() {
			_, err := d.Ask(gone)
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		require.EqualValues(t, 1, p.asked.Load())
		leave()
		close(p.let)
		all.Wait()
		require.EqualValues(t, 7, p.asked.Load())
		_, err := d.Ask(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 7, p.asked.Load(), "what is young enough is not asked for again")
		time.Sleep(5 * time.Second)
		_, err = d.Ask(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 14, p.asked.Load())
	})
}

// silent is an agent that answers some commands only.
type silent struct {
	*scripted
	to string
}

func (s silent) AgentCommand(command string, timeout time.Duration) (string, error) {
	answer, err := s.scripted.AgentCommand(command, timeout)
	if strings.Contains(command, s.to) {
		return "", errors.Join(guest.ErrSilent, err)
	}
	return answer, err
}

func TestStopsAskingSilentAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := silent{talkative(), "guest-get-fsinfo"}
		d := agent.NewDetails(s)
		d.Learn()
		synctest.Wait()
		got, err := d.Ask(t.Context())
		require.NoError(t, err)
		require.Len(t, s.asked, 3)
		require.Contains(t, got.GetFileSystemsUnknown(), guest.ErrSilent.Error())
		require.NotEmpty(t, got.GetUsersUnknown())

		mute := silent{talkative(), "guest-info"}
		d = agent.NewDetails(mute)
		for range 3 {
			_, err = d.Ask(t.Context())
			require.ErrorIs(t, err, guest.ErrSilent)
		}
		require.Len(t, mute.asked, 1)
	})
}
