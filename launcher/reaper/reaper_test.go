package reaper_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/launcher/reaper"
)

func TestCollectsOnlyOrphans(t *testing.T) {
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	r := reaper.New()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.Reap(ctx)

	var wg sync.WaitGroup
	for i := range 30 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var out bytes.Buffer
			cmd := exec.Command("/bin/sh", "-c", "(sleep 0.05 & echo $!); exit "+strconv.Itoa(i%3))
			cmd.Stdout = &out
			err := r.Run(cmd, nil)
			if i%3 == 0 {
				require.NoError(t, err)
			} else {
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit)
				require.Equal(t, i%3, exit.ExitCode())
			}
			orphan := strings.TrimSpace(out.String())
			require.Eventually(t, func() bool {
				_, err := os.Stat("/proc/" + orphan)
				return os.IsNotExist(err)
			}, 10*time.Second, 5*time.Millisecond, "orphan %s was not collected", orphan)
		}()
	}
	wg.Wait()
}

func TestFailsToStartMissingProgram(t *testing.T) {
	r := reaper.New()
	require.Error(t, r.Run(exec.Command("/does/not/exist"), nil))
}
