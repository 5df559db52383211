package agent

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/guest"
)

// agentFunc answers a command.
type agentFunc func(command string) (string, error)

func (f agentFunc) AgentCommand(command string, _ time.Duration) (string, error) { return f(command) }

const oneFileSystem = `{"return":[{"name":"vda1","mountpoint":"/","type":"ext4","used-bytes":1,"total-bytes":2,` +
	`"disk":[{"serial":"s","bus-type":"virtio"}]}]}`

func TestUsageIsReadInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, make(chan struct{})
		u := NewUsage(agentFunc(func(command string) (string, error) {
			asked++
			<-answer
			if strings.Contains(command, "guest-get-load") {
				return `{"return":{"load1m":0.5,"load5m":0.25,"load15m":0.125}}`, nil
			}
			return oneFileSystem, nil
		}))
		u.Refresh()
		u.Refresh()
		synctest.Wait()
		files, load := u.Known()
		require.Empty(t, files, "the agent has not answered yet")
		require.Nil(t, load)
		require.Equal(t, 1, asked, "one request at a time")

		close(answer)
		synctest.Wait()
		files, load = u.Known()
		require.Len(t, files, 1)
		require.Equal(t, "/", files[0].GetMountPoint())
		require.Empty(t, files[0].GetDisks())
		require.InDelta(t, 0.25, load.GetFiveMinutes(), 0)

		u.Refresh()
		synctest.Wait()
		require.Equal(t, 2, asked, "the answer is recent")
		time.Sleep(usageInterval)
		u.Refresh()
		synctest.Wait()
		require.Equal(t, 4, asked)
		time.Sleep(usageAge)
		files, load = u.Known()
		require.Empty(t, files, "the answer is too old")
		require.Nil(t, load)
	})
}

func TestUsageOfAgentsThatDoNotAnswerAll(t *testing.T) {
	missing := errors.New("the guest's agent: The command guest-get-load has not been found")
	disabled := errors.New("the guest's agent: Command guest-get-load has been disabled: not allowed")
	failed := errors.New("the guest's agent: failed to open /proc/loadavg")
	for name, c := range map[string]struct {
		files, load error
		// asked is how many commands are sent in three minutes, with a request in each half of a minute.
		asked int
		known bool
	}{
		"without the load":         {load: missing, asked: 7, known: true},
		"must not read the load":   {load: disabled, asked: 7, known: true},
		"fails to read the load":   {load: failed, asked: 12, known: true},
		"silent":                   {files: guest.ErrSilent, asked: 2},
		"silent about the load":    {load: guest.ErrSilent, asked: 4, known: true},
		"refuses the file systems": {files: failed, asked: 12, known: true},
		"libvirt does not answer":  {files: guest.ErrUnavailable, load: guest.ErrUnavailable, asked: 12},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				u := NewUsage(agentFunc(func(command string) (string, error) {
					asked++
					if strings.Contains(command, "guest-get-load") {
						return `{"return":{"load1m":1,"load5m":1,"load15m":1}}`, c.load
					}
					return oneFileSystem, c.files
				}))
				for range 6 {
					u.Refresh()
					synctest.Wait()
					time.Sleep(usageInterval)
				}
				require.Equal(t, c.asked, asked)
				files, load := u.Known()
				require.Equal(t, c.known, files != nil || load != nil)
				require.Equal(t, c.files == nil, files != nil)
			})
		})
	}
}

// TestUsageKeepsWhatIsNotAnsweredAgain: a request that fails does not take the earlier answer away, nor does the other
// answer keep it for longer.
func TestUsageKeepsWhatIsNotAnsweredAgain(t *testing.T) {
	failed := errors.New("the guest's agent: it is busy")
	for name, c := range map[string]struct{ files, load error }{
		"file systems": {files: failed},
		"load":         {load: failed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fails bool
				u := NewUsage(agentFunc(func(command string) (string, error) {
					answer, err := oneFileSystem, c.files
					if strings.Contains(command, "guest-get-load") {
						answer, err = `{"return":{"load1m":1,"load5m":1,"load15m":1}}`, c.load
					}
					if !fails {
						err = nil
					}
					return answer, err
				}))
				for spent := time.Duration(0); spent < usageAge; spent += usageInterval {
					u.Refresh()
					synctest.Wait()
					files, load := u.Known()
					require.True(t, files != nil && load != nil, "after %s", spent)
					fails = true
					time.Sleep(usageInterval)
				}
				files, load := u.Known()
				require.Equal(t, c.files == nil, files != nil)
				require.Equal(t, c.load == nil, load != nil)
			})
		})
	}
}
