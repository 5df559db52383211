package virtiofs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/reaper"
	"github.com/virtflow/virtflow/launcher/virtiofs"
)

func TestPlan(t *testing.T) {
	const volumes = `,"volumes":[{"name":"c","configMap":{"name":"x"}},{"name":"p","persistentVolumeClaim":{"claimName":"y"}},
		{"name":"b","dataVolume":{"name":"z"}}]`
	for name, c := range map[string]struct{ list, problem string }{
		`{"name":"c","virtiofs":{}},{"name":"p","virtiofs":{}}`: {
			list: "c /files/c /s/virtiofs0.sock, p /claims/p /s/virtiofs1.sock"},
		"":                            {},
		`{"name":"b","virtiofs":{}}`:  {problem: "filesystems[0]: the claim of volume b is a device, and no file system"},
		`{"name":"no","virtiofs":{}}`: {problem: "filesystems[0]: there is no volume of the name no"},
	} {
		t.Run(name, func(t *testing.T) {
			var vmi v1.VirtualMachineInstance
			require.NoError(t, json.Unmarshal([]byte(`{"spec":{"domain":{"devices":{"filesystems":[`+name+`]}}`+volumes+`},
				"status":{"volumeStatus":[{"name":"b","target":"","persistentVolumeClaimInfo":{"volumeMode":"Block"}}]}}`), &vmi))
			list, err := virtiofs.Plan(&vmi, virtiofs.Directories{Claims: "/claims", Files: "/files", Sockets: "/s"})
			if c.problem != "" {
				require.EqualError(t, err, "spec.domain.devices."+c.problem)
				return
			}
			require.NoError(t, err)
			var got []string
			for _, s := range list {
				got = append(got, s.Name+" "+s.Directory+" "+s.Socket)
			}
			require.Equal(t, c.list, strings.Join(got, ", "))
		})
	}
}

// TestDaemons: each start has daemons of its own, and one that ends at once fails it, with its words in the log.
func TestDaemons(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "virtiofsd")
	runs := func(script string) {
		t.Helper()
		require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o700)) //nolint:gosec // it is to be run
	}
	processes := reaper.New()
	go processes.Reap(t.Context())
	var log strings.Builder
	d := virtiofs.New(program, processes, zerolog.New(zerolog.SyncWriter(&log)))
	list := []virtiofs.FileSystem{{Name: "a", Directory: dir, Socket: filepath.Join(dir, "a.sock")}}

	runs(`s=${1#--socket-path=}; echo "$2" >> "$s".runs; touch "$s"; exec sleep 100`)
	require.NoError(t, d.Run(t.Context(), list))
	require.NoError(t, d.Run(t.Context(), list), "QEMU has not connected to the first")
	ran, err := os.ReadFile(list[0].Socket + ".runs")
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("--shared-dir="+dir+"\n", 2), string(ran))

	runs("echo no such directory >&2; exit 1")
	require.ErrorContains(t, d.Run(t.Context(), list), "virtiofsd for volume a: it ended at once")
	require.Contains(t, log.String(), "no such directory")
	require.NoError(t, d.Run(t.Context(), nil))
}
