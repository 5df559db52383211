package processes

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgramOfCommandLine(t *testing.T) {
	require.Equal(t, "kube-apiserver", program([]string{"/somewhere/kube", "kube-apiserver", "--secure-port", "6443"}))
	require.Equal(t, "crdwatch", program([]string{"/usr/bin/crdwatch"}))
	require.Equal(t, "less", program([]string{"less", "etcd"}))
	require.Equal(t, "postgres", program([]string{"/usr/lib/postgresql/17/bin/postgres", "-D", "data"}))
	require.Equal(t, "postgres", program([]string{"postgres: temporal temporal [local] idle"}))
	require.Empty(t, program(nil))
}

func TestFindsThisProcess(t *testing.T) {
	all, err := Running(filepath.Base(os.Args[0]))
	require.NoError(t, err)
	require.Contains(t, all, Process{PID: os.Getpid(), Program: filepath.Base(os.Args[0]),
		Started: all[0].Started, Used: all[0].Used})
	require.Positive(t, all[0].Used.Resident)
}

func TestSinceCountsEachProcess(t *testing.T) {
	used := func(cpu time.Duration, resident int) Used { return Used{CPU: cpu, Resident: resident} }
	before := []Process{{1, "a", 10, used(5*time.Second, 1)}, {2, "b", 11, used(7*time.Second, 1)}}
	now := []Process{{1, "a", 10, used(8*time.Second, 2)}, {3, "a", 40, used(time.Second, 3)},
		{2, "b", 50, used(2*time.Second, 4)}} // the PID 2 is another process now
	require.Equal(t, map[string]Used{"a": used(4*time.Second, 5), "b": used(2*time.Second, 4)}, Since(before, now))
	require.False(t, Replaced(before[:1], now[:2]))
	require.True(t, Replaced(before[1:], now[2:]))
	require.False(t, Replaced(before, nil))
}
