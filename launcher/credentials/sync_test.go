package credentials_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/credentials"
)

// guest is an agent with some users.
type guest struct {
	users map[string]bool
	asked chan string
}

func (g guest) AgentCommand(command string, _ time.Duration) (string, error) {
	var c struct {
		Execute   string
		Arguments struct{ Username string }
	}
	if err := json.Unmarshal([]byte(command), &c); err != nil {
		return "", err
	}
	g.asked <- command
	if !g.users[c.Arguments.Username] {
		return "", errors.New("no such user")
	}
	return `{"return":{}}`, nil
}

const spec = `[
	{"sshPublicKey":{"source":{"secret":{"secretName":"one"}},"propagationMethod":{"qemuGuestAgent":{"users":["ann","bob"]}}}},
	{"sshPublicKey":{"source":{"secret":{"secretName":"two"}},"propagationMethod":{"qemuGuestAgent":{"users":["bob"]}}}},
	{"sshPublicKey":{"source":{"secret":{"secretName":"none"}},"propagationMethod":{"noCloud":{}}}},
	{"userPassword":{"source":{"secret":{"secretName":"passwords"}},"propagationMethod":{"qemuGuestAgent":{}}}}]`

func wanted(t *testing.T) ([]v1.AccessCredential, string) {
	t.Helper()
	var all []v1.AccessCredential
	require.NoError(t, json.Unmarshal([]byte(spec), &all))
	dir := t.TempDir()
	for path, content := range map[string]string{
		"one/key1": "ssh-rsa A\n\n ssh-rsa B \n", "one/key2": "ssh-rsa C", "two/key": "ssh-rsa D", "passwords/bob": " hunter2\n",
		"passwords/eve": "\n",
	} {
		put(t, filepath.Join(dir, path), content)
	}
	return all, dir
}

func put(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestReadsSecrets(t *testing.T) {
	all, dir := wanted(t)
	w, err := credentials.Read(all, dir)
	require.NoError(t, err)
	require.Equal(t, credentials.Wanted{
		Keys: map[string][]string{"ann": {"ssh-rsa A", "ssh-rsa B", "ssh-rsa C"},
			"bob": {"ssh-rsa A", "ssh-rsa B", "ssh-rsa C", "ssh-rsa D"}},
		Passwords: map[string]string{"bob": "hunter2"},
	}, w)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "two")))
	_, err = credentials.Read(all, dir)
	require.ErrorContains(t, err, "reading Secret two")
}

// TestSetsCredentials: credentials are set once the agent is connected, and again when a Secret changes, and failures
// are reported.
func TestSetsCredentials(t *testing.T) {
	all, dir := wanted(t)
	g := guest{users: map[string]bool{"ann": true}, asked: make(chan string, 100)}
	states, reports := make(chan credentials.State), make(chan string, 10)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	s := credentials.NewSyncer(all, dir, g, credentials.Intervals{Look: time.Millisecond, Again: time.Hour},
		func() credentials.State {
			select {
			case s := <-states:
				return s
			case <-ctx.Done():
				return credentials.State{}
			}
		}, func(done bool, message string) { reports <- fmt.Sprint(done, " ", message) }, zerolog.Nop())
	go func() {
		s.Run(ctx)
		close(ended)
	}()
	commands := func() (out []string) {
		for len(g.asked) > 0 {
			out = append(out, <-g.asked)
		}
		return out
	}
	// The request for a state means that the look before has ended.
	look := func(s credentials.State) []string {
		states <- s
		states <- credentials.State{}
		return commands()
	}
	on := credentials.State{Running: true, Connected: true}
	require.Empty(t, look(credentials.State{}), "it does not run yet")
	require.Empty(t, look(credentials.State{Running: true}))
	require.Equal(t, "false Guest agent is offline", <-reports)

	require.Empty(t, look(credentials.State{Running: true, Connected: true, Frozen: true}))
	require.Len(t, look(on), 3)
	failure := <-reports
	require.Contains(t, failure, "false Error encountered setting password for user [bob]: ")
	require.Contains(t, failure, "no such user")
	require.NotContains(t, failure, "hunter2")
	require.NotContains(t, failure, "aHVudGVyMg")

	g.users["bob"] = true
	require.Equal(t, []string{
		`{"arguments":{"keys":["ssh-rsa A","ssh-rsa B","ssh-rsa C"],"reset":true,"username":"ann"},` +
			`"execute":"guest-ssh-add-authorized-keys"}`,
		`{"arguments":{"keys":["ssh-rsa A","ssh-rsa B","ssh-rsa C","ssh-rsa D"],"reset":true,"username":"bob"},` +
			`"execute":"guest-ssh-add-authorized-keys"}`,
		`{"arguments":{"crypted":false,"password":"aHVudGVyMg==","username":"bob"},"execute":"guest-set-user-password"}`,
	}, look(on), "what failed is tried again")
	require.Equal(t, "true ", <-reports)
	require.Empty(t, look(on), "nothing has changed")

	put(t, filepath.Join(dir, "two", "key"), "")
	require.Contains(t, look(on)[1], `"keys":["ssh-rsa A","ssh-rsa B","ssh-rsa C"]`)
	require.Empty(t, look(credentials.State{Running: true}))
	require.Equal(t, "false Guest agent is offline", <-reports)
	require.Len(t, look(on), 3, "another system may have booted")
	require.Equal(t, "true ", <-reports)
	stop()
	<-ended
	require.Empty(t, reports)
}

func TestIgnoresCredentialsOfCloudInit(t *testing.T) {
	var all []v1.AccessCredential
	require.NoError(t, json.Unmarshal([]byte(spec), &all))
	credentials.NewSyncer(all[2:3], "", nil, credentials.KubeVirtIntervals(), nil, nil, zerolog.Nop()).Run(t.Context())
}
