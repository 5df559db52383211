package supervise

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

const patience = 20 * time.Second

// sleeper is a process that runs until it is ended.
func sleeper(name string) Spec { return Spec{Name: name, Args: []string{"/bin/sleep", "300"}} }

type running struct {
	*Supervisor
	client *Client
	done   chan struct{}
}

// run runs a supervisor over the state folder dir.
func run(t *testing.T, dir string, specs ...Spec) running {
	t.Helper()
	s, err := New(Options{Log: zerolog.New(zerolog.NewTestWriter(t)), Logs: dir, Records: dir, Version: "v"}, specs)
	require.NoError(t, err)
	socket := filepath.Join(dir, "s.sock")
	ctx, cancel := context.WithCancel(t.Context())
	r := running{Supervisor: s, client: NewClient(socket), done: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, socket) }()
	go func() {
		defer close(r.done)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		s.Finish(true)
		<-r.done
		cancel()
		require.NoError(t, <-served)
	})
	return r
}

// eventually waits until the process is as wanted.
func (r running) eventually(t *testing.T, name string, wanted func(Status) bool) Status {
	t.Helper()
	var last Status
	require.Eventually(t, func() bool {
		report, err := r.client.Report(t.Context())
		if err != nil {
			return false
		}
		for _, p := range report.Processes {
			if p.Name == name {
				last = p
				return wanted(p)
			}
		}
		return false
	}, patience, 10*time.Millisecond)
	return last
}

func isRunning(s Status) bool { return s.State == Running }

func TestRestartsKilledProcess(t *testing.T) {
	r := run(t, t.TempDir(), sleeper("a"), sleeper("b"))
	first, other := r.eventually(t, "a", isRunning), r.eventually(t, "b", isRunning)
	require.NoError(t, r.client.Kill(t.Context(), "a"))
	second := r.eventually(t, "a", func(s Status) bool { return isRunning(s) && s.PID != first.PID })
	require.Equal(t, 1, second.Restarts)
	require.Contains(t, second.LastEnd, "killed")
	require.Equal(t, other.PID, r.eventually(t, "b", isRunning).PID, "only the one that was killed is started again")

	require.NoError(t, r.client.Restart(t.Context(), "b"))
	r.eventually(t, "b", func(s Status) bool { return isRunning(s) && s.PID != other.PID })
	require.ErrorContains(t, r.client.Kill(t.Context(), "c"), "no such process")
}

func TestStoppedProcessStaysStopped(t *testing.T) {
	r := run(t, t.TempDir(), sleeper("a"))
	first := r.eventually(t, "a", isRunning)
	require.NoError(t, r.client.Stop(t.Context(), "a"))
	r.eventually(t, "a", func(s Status) bool { return s.State == Stopped })
	require.NoError(t, r.client.Restart(t.Context(), "a"))
	require.Never(t, func() bool {
		report, err := r.client.Report(t.Context())
		return err == nil && isRunning(report.Processes[0])
	}, 3*backoffMin, backoffMin/4, "to restart it does not start it")
	require.NoError(t, r.client.Start(t.Context(), "a"))
	r.eventually(t, "a", func(s Status) bool { return isRunning(s) && s.PID != first.PID })
}

func TestFinishEndsEverything(t *testing.T) {
	stubborn := Spec{Name: "stubborn", Grace: 50 * time.Millisecond,
		Args: []string{"/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"}}
	r := run(t, t.TempDir(), sleeper("a"), stubborn)
	a, s := r.eventually(t, "a", isRunning), r.eventually(t, "stubborn", isRunning)
	require.NoError(t, r.client.Finish(t.Context(), true))
	<-r.done
	require.False(t, Alive(a.PID))
	require.False(t, Alive(s.PID))
}

func TestNextSupervisorTakesOver(t *testing.T) {
	dir := t.TempDir()
	changed, gone := sleeper("changed"), sleeper("gone")
	first := run(t, dir, sleeper("same"), changed, gone)
	pids := map[string]int{}
	for _, name := range []string{"same", "changed", "gone"} {
		pids[name] = first.eventually(t, name, isRunning).PID
	}
	require.NoError(t, first.client.Finish(t.Context(), false))
	<-first.done
	for name, pid := range pids {
		require.True(t, Alive(pid), name)
	}

	// Meanwhile one ends, and one is to be started otherwise.
	require.NoError(t, syscall.Kill(pids["gone"], syscall.SIGKILL))
	require.Eventually(t, func() bool { return !Alive(pids["gone"]) }, 10*time.Second, time.Millisecond)
	changed.Fingerprint = "new"
	second := run(t, dir, sleeper("same"), changed, gone)
	require.Equal(t, pids["same"], second.eventually(t, "same", isRunning).PID)
	for _, name := range []string{"changed", "gone"} {
		require.NotEqual(t, pids[name], second.eventually(t, name, isRunning).PID, name)
		require.False(t, Alive(pids[name]), name)
	}

	// What was taken over is kept running, too.
	require.NoError(t, second.client.Kill(t.Context(), "same"))
	second.eventually(t, "same", func(s Status) bool { return isRunning(s) && s.PID != pids["same"] })
}

func TestIgnoresRecordOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	h, err := start(sleeper("x"), filepath.Join(dir, "x.log"))
	require.NoError(t, err)
	require.NoError(t, h.save(filepath.Join(dir, "x.json"), "hash"))
	r, err := readRecord(filepath.Join(dir, "x.json"))
	require.NoError(t, err)

	r.Start = "1" // as if the number had been given to another process
	_, err = adopt(r)
	require.Error(t, err)
	h.signal(syscall.SIGKILL)
	<-h.done
	_, err = adopt(r)
	require.Error(t, err)
}

func TestReportsWhyProcessDoesNotStart(t *testing.T) {
	ready := make(chan struct{})
	waits := sleeper("waits")
	waits.Needs = func(ctx context.Context) error {
		select {
		case <-ready:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r := run(t, t.TempDir(), Spec{Name: "absent", Args: []string{"/absent/program"}}, waits)
	s := r.eventually(t, "absent", func(s Status) bool { return s.State == Backoff })
	require.Contains(t, s.LastEnd, "/absent/program")
	r.eventually(t, "waits", func(s Status) bool { return s.State == Waiting })
	close(ready)
	r.eventually(t, "waits", isRunning)
}

func TestNewRefusesEqualNames(t *testing.T) {
	_, err := New(Options{}, []Spec{sleeper("a"), sleeper("a")})
	require.ErrorContains(t, err, `"a"`)
}

func TestRotateKeepsEndOfLargeLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	require.NoError(t, os.WriteFile(path, []byte("short"), 0o644))
	rotate(path)
	require.FileExists(t, path)
	require.NoFileExists(t, path+".1")

	require.NoError(t, os.Truncate(path, maxLog))
	rotate(path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Zero(t, info.Size())
	require.FileExists(t, path+".1")
}
