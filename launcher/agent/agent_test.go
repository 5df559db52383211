package agent_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/launcher/agent"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// scripted answers each command with the next of its lines; the last one is repeated.
type scripted struct {
	mu     sync.Mutex
	answer map[string][]string
	asked  []string
}

func (s *scripted) AgentCommand(command string, _ time.Duration) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var c struct {
		Execute string `json:"execute"`
	}
	if err := json.Unmarshal([]byte(command), &c); err != nil {
		return "", err
	}
	s.asked = append(s.asked, command)
	lines := s.answer[c.Execute]
	if len(lines) == 0 {
		return "", errors.New("The command " + c.Execute + " has not been found")
	}
	if len(lines) > 1 {
		s.answer[c.Execute] = lines[1:]
	}
	return lines[0], nil
}

func (s *scripted) set(command string, lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer[command] = lines
}

func TestExec(t *testing.T) {
	out, fault := base64.StdEncoding.EncodeToString([]byte("out")), base64.StdEncoding.EncodeToString([]byte("err"))
	for name, c := range map[string]struct {
		status []string
		code   int32
		output string
	}{
		"success": {[]string{`{"return":{"exited":false}}`,
			`{"return":{"exited":true,"exitcode":0,"out-data":"` + out + `"}}`}, 0, "out"},
		"failure": {[]string{`{"return":{"exited":true,"exitcode":3,"out-data":"` + out + `","err-data":"` +
			fault + `"}}`}, 3, "outerr"},
		"killed": {[]string{`{"return":{"exited":true,"signal":9}}`}, 137, ""},
		"too much to keep": {[]string{`{"return":{"exited":true,"exitcode":0,"out-data":"` +
			base64.StdEncoding.EncodeToString(make([]byte, 1<<20)) + `"}}`}, 0,
			strings.Repeat("\x00", agent.MaxOutput)},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{answer: map[string][]string{"guest-exec": {`{"return":{"pid":7}}`},
				"guest-exec-status": c.status}}
			r, err := agent.Exec(context.Background(), s, "/bin/check", []string{"a b"}, time.Minute)
			require.NoError(t, err)
			require.Equal(t, c.code, r.ExitCode)
			require.Equal(t, c.output, string(r.Output))
			require.JSONEq(t, `{"execute":"guest-exec","arguments":{"path":"/bin/check","arg":["a `+
				`b"],"capture-output":true}}`, s.asked[0])
			require.JSONEq(t, `{"execute":"guest-exec-status","arguments":{"pid":7}}`, s.asked[1])
		})
	}
}

func TestExecThatDoesNotEnd(t *testing.T) {
	s := &scripted{answer: map[string][]string{"guest-exec": {`{"return":{"pid":7}}`},
		"guest-exec-status": {`{"return":{"exited":false}}`}}}
	_, err := agent.Exec(context.Background(), s, "sleep", nil, time.Millisecond)
	require.ErrorIs(t, err, agent.ErrTimeout)
}

func TestAgentThatRefusesFailsProbe(t *testing.T) {
	s := &scripted{answer: map[string][]string{}}
	_, err := agent.Exec(context.Background(), s, "true", nil, time.Second)
	require.ErrorContains(t, err, "guest-exec has not been found")
	require.Error(t, agent.Ping(s, time.Second))
	s.set("guest-ping", `{"return":{}}`)
	require.NoError(t, agent.Ping(s, time.Second))
}

const goodCommands = `{"return":{"version":"7.2","supported_commands":[{"name":"guest-ping","enabled":true},{"name":"guest-get-time","enabled":true},
 {"name":"guest-info","enabled":true},{"name":"guest-shutdown","enabled":true},{"name":"guest-network-get-interfaces","enabled":true},
 {"name":"guest-get-fsinfo","enabled":true},{"name":"guest-get-host-name","enabled":true},{"name":"guest-get-users","enabled":true},
 {"name":"guest-get-timezone","enabled":true},{"name":"guest-get-osinfo","enabled":true}]}}`

// report collects what a poller reports.
type report struct {
	connected bool
	info      *rpc.GuestInfo
	frozen    bool
}

func poll(t *testing.T, s *scripted, every agent.Intervals) (*agent.Poller, chan report) {
	t.Helper()
	reports := make(chan report)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	p := agent.NewPoller(s, every, func(connected bool, info *rpc.GuestInfo, frozen bool) {
		select {
		case reports <- report{connected, info, frozen}:
		case <-ctx.Done():
		}
	}, zerolog.Nop())
	go p.Run(ctx)
	return p, reports
}

func TestReportsConnectionWithFirstAnswers(t *testing.T) {
	s := &scripted{answer: map[string][]string{
		"guest-info": {goodCommands},
		"guest-get-osinfo": {`{"return":{"id":"debian","name":"Debian","version-id":"12","pretty-name":"Debian ` +
			`12","kernel-release":"6.1","machine":"x86_64"}}`},
		"guest-network-get-interfaces": {
			`{"return":[{"name":"lo","hardware-address":"00:00:00:00:00:00"},{"name":"eth0","hardware-address":"02:00:00:AA:00:01","ip-addresses":[]}]}`,
			`{"return":[{"name":"eth0","hardware-address":"02:00:00:aa:00:01","ip-addresses":[{"ip-address":"10.0.2.2"},{"ip-address":"fe80::1%eth0"},{"ip-address":"no"}]}]}`,
		},
	}}
	p, reports := poll(t, s, agent.Intervals{First: time.Millisecond, System: time.Hour, Version: time.Hour})
	p.Connected(true)
	first := <-reports
	require.True(t, first.connected)
	require.True(t, proto.Equal(&rpc.GuestInfo{
		Os: &rpc.GuestOS{Id: "debian", Name: "Debian", VersionId: "12", PrettyName: "Debian 12",
			KernelRelease: "6.1", Machine: "x86_64"},
		Interfaces: []*rpc.GuestInterface{{Mac: "02:00:00:aa:00:01", Name: "eth0"}},
	}, first.info), "%v", first.info)

	require.Equal(t, []string{"10.0.2.2", "fe80::1"}, (<-reports).info.GetInterfaces()[0].GetAddresses())
	p.Connected(false)
	last := <-reports
	require.False(t, last.connected)
	require.Equal(t, []string{"10.0.2.2", "fe80::1"}, last.info.GetInterfaces()[0].GetAddresses())
}

// TestAsksFrozenGuestOnlyWhetherItIsFrozen: its agent has no other commands then, which does not mean that it lacks
// support for them.
func TestAsksFrozenGuestOnlyWhetherItIsFrozen(t *testing.T) {
	s := &scripted{answer: map[string][]string{
		"guest-info": {goodCommands},
		"guest-fsfreeze-status": {`{"return":"thawed"}`, `{"return":"frozen"}`, `{"return":"frozen"}`,
			`{"return":"thawed"}`},
	}}
	p, reports := poll(t, s, agent.Intervals{First: time.Hour, System: time.Hour, Version: time.Nanosecond,
		Frozen: time.Millisecond})
	p.Connected(true)
	require.False(t, (<-reports).frozen)
	s.set("guest-info", strings.ReplaceAll(goodCommands, `"enabled":true`, `"enabled":false`))
	p.Operated()
	require.True(t, (<-reports).frozen)
	again := <-reports
	require.True(t, again.frozen)
	require.Empty(t, again.info.GetAgentProblem())
	s.set("guest-info", goodCommands)
	last := <-reports
	require.False(t, last.frozen)
	require.Empty(t, last.info.GetAgentProblem())
}

// TestReboot: a guest that boots is not frozen, whether or not its agent reports it, and its reports count again.
func TestReboot(t *testing.T) {
	for name, c := range map[string]struct {
		connected bool
		after     []string // what the agent says then
		frozen    bool     // in the end
	}{
		"an agent that is away":            {connected: false},
		"an agent that does not answer":    {connected: true},
		"an agent that is up":              {connected: true, after: []string{`{"return":"thawed"}`}},
		"an agent that was frozen already": {connected: true, after: []string{`{"return":"frozen"}`}, frozen: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{answer: map[string][]string{"guest-fsfreeze-status": {`{"return":"frozen"}`}}}
			p, reports := poll(t, s, agent.Intervals{First: time.Hour, System: time.Hour, Version: time.Hour,
				Frozen: time.Hour})
			p.Connected(true)
			require.True(t, (<-reports).frozen)
			if !c.connected {
				p.Connected(false)
				require.True(t, (<-reports).frozen)
			}
			s.set("guest-fsfreeze-status", c.after...)
			p.Rebooted()
			require.False(t, (<-reports).frozen)
			if c.connected {
				require.Equal(t, c.frozen, (<-reports).frozen)
			}
		})
	}
}

func TestAgentWithoutRequiredCommandsIsNotSupported(t *testing.T) {
	s := &scripted{answer: map[string][]string{
		"guest-info": {strings.Replace(goodCommands, `"guest-get-users","enabled":true`,
			`"guest-get-users","enabled":false`, 1)}}}
	p, reports := poll(t, s, agent.KubeVirtIntervals())
	p.Connected(true)
	require.Equal(t, agent.NotSupported, (<-reports).info.GetAgentProblem())
}

// TestAgentThatCannotSetCredentials: such an agent is reported as unsupported where the VMI has accessCredentials.
func TestAgentThatCannotSetCredentials(t *testing.T) {
	const keys, passwords = `{"name":"guest-ssh-add-authorized-keys","enabled":true},`,
		`{"name":"guest-set-user-password","enabled":true},`
	for more, want := range map[string]string{
		passwords:        "This guest agent doesn't support required public key commands",
		keys:             "This guest agent doesn't support required password commands",
		keys + passwords: "",
	} {
		s := &scripted{answer: map[string][]string{
			"guest-info": {strings.Replace(goodCommands, `"supported_commands":[`, `"supported_commands":[`+more, 1)}}}
		p, reports := poll(t, s, agent.KubeVirtIntervals())
		p.Needs(agent.Needs{Keys: true, Passwords: true})
		p.Connected(true)
		require.Equal(t, want, (<-reports).info.GetAgentProblem())
	}
}

func TestSilentAgentIsConnected(t *testing.T) {
	p, reports := poll(t, &scripted{answer: map[string][]string{}}, agent.KubeVirtIntervals())
	p.Connected(true)
	first := <-reports
	require.True(t, first.connected)
	require.Nil(t, first.info)
}

func TestLimitsSizeOfGuestInfo(t *testing.T) {
	long := strings.Repeat("é\\n\\u001b", 1<<16)
	var list []string
	for range 1000 {
		list = append(list, `{"name":"`+long+`","hardware-address":"02:00:00:aa:00:01","ip-addresses":[`+
			strings.Repeat(`{"ip-address":"10.0.0.1"},`, 1000)+`{"ip-address":"10.0.0.2"}]}`)
	}
	s := &scripted{answer: map[string][]string{
		"guest-info": {goodCommands}, "guest-get-osinfo": {`{"return":{"id":"` + long + `"}}`},
		"guest-network-get-interfaces": {`{"return":[` + strings.Join(list[:100], ",") + `]}`},
	}}
	p, reports := poll(t, s, agent.KubeVirtIntervals())
	p.Connected(true)
	info := (<-reports).info
	require.Less(t, proto.Size(info), 16<<10)
	require.True(t, utf8.ValidString(info.GetOs().GetId()))
	require.NotContains(t, info.GetOs().GetId(), "\n")
	require.NotContains(t, info.GetOs().GetId(), "\x1b")
	require.Equal(t, []string{"10.0.0.1", "10.0.0.2"}, info.GetInterfaces()[0].GetAddresses())
}
