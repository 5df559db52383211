package postgres

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// folder is a short one: a socket's path has at most 107 bytes. Its parents may be entered by PostgreSQL's user.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "postgres")
}

// run starts the server, again and again as a supervisor does: after a kill it refuses to start while children of the
// one before are left.
func run(t *testing.T, s Server) (kill func()) {
	t.Helper()
	args, err := s.Args()
	require.NoError(t, err)
	var cmd *exec.Cmd
	ended := make(chan struct{})
	start := func() {
		started, done := exec.Command(args[0], args[1:]...), make(chan struct{})
		started.Dir, started.Stderr = "/", os.Stderr
		require.NoError(t, started.Start())
		go func() { _ = started.Wait(); close(done) }()
		cmd, ended = started, done
	}
	start()
	kill = func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	t.Cleanup(kill)
	for deadline := time.Now().Add(30 * time.Second); s.Ready(t.Context()) != nil; {
		require.True(t, time.Now().Before(deadline), "it is not ready")
		select {
		case <-ended:
			start()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return kill
}

func TestServer(t *testing.T) {
	s := Server{Dir: folder(t)}
	if _, err := s.program("postgres"); err != nil {
		t.Skip(err)
	}
	require.False(t, s.Exists())
	// What a killed start left is no data.
	require.NoError(t, os.MkdirAll(s.data()+".partial/base", 0o700))
	require.NoError(t, s.Prepare(t.Context()))
	require.True(t, s.Exists())
	kill := run(t, s)

	psql := func(args ...string) (string, error) {
		program, err := s.program("psql")
		require.NoError(t, err)
		out, err := exec.Command(program, append([]string{"-h", s.Socket(), "-At", "-d", "postgres"}, args...)...).
			CombinedOutput()
		return string(out), err
	}
	out, err := psql("-U", role, "-c", "create table kept (n int); insert into kept values (42)")
	require.NoError(t, err, out)
	out, err = psql("-U", owner, "-c", "select 1")
	require.Error(t, err, "other users are refused: %s", out)
	if os.Geteuid() == 0 {
		ls := exec.Command("setpriv", "--reuid", "nobody", "--clear-groups", "ls", s.Socket())
		listing, err := ls.CombinedOutput()
		require.Error(t, err, "%s", listing)
	}

	// A crash, and a start that finds the data.
	kill()
	require.NoError(t, s.Prepare(t.Context()))
	run(t, s)
	out, err = psql("-U", role, "-c", "select n from kept")
	require.NoError(t, err, out)
	require.Equal(t, "42\n", out)
}

func TestVersionThatMadeDataServesIt(t *testing.T) {
	dir := t.TempDir()
	s := Server{Dir: filepath.Join(dir, "state"), Installed: filepath.Join(dir, "lib")}
	_, err := s.program("postgres")
	require.ErrorContains(t, err, "install Debian's package postgresql")
	for _, v := range []string{"9", "15", "17"} {
		require.NoError(t, os.MkdirAll(filepath.Join(s.Installed, v, "bin"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(s.Installed, v, "bin", "postgres"), nil, 0o755))
	}
	program, err := s.program("postgres")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(s.Installed, "17/bin/postgres"), program, "the newest, by number")

	require.NoError(t, os.MkdirAll(s.data(), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(s.data(), "PG_VERSION"), []byte("15\n"), 0o600))
	program, err = s.program("postgres")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(s.Installed, "15/bin/postgres"), program)
	require.NoError(t, os.WriteFile(filepath.Join(s.data(), "PG_VERSION"), []byte("16\n"), 0o600))
	_, err = s.program("postgres")
	require.ErrorContains(t, err, "PostgreSQL 16, which is not installed")
}
