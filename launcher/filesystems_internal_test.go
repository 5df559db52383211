package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/reaper"
	"github.com/virtflow/virtflow/launcher/virtiofs"
)

// looked is a hypervisor whose domain is the given one.
type looked struct {
	Hypervisor
	state guest.State
	err   error
}

func (h looked) Look() (guest.Status, error) { return guest.Status{State: h.state}, h.err }

// TestReportsLostVirtiofsd covers a running guest, which continues without its file system.
func TestReportsLostVirtiofsd(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "launcher")
	require.NoError(t, os.WriteFile(self, []byte("#!/bin/sh\nexit 1\n"), 0o700))
	processes := reaper.New()
	go processes.Reap(t.Context())
	var vmi v1.VirtualMachineInstance
	require.NoError(t, json.Unmarshal([]byte(`{"spec":{"domain":{"devices":{"filesystems":[{"name":"shared",
		"virtiofs":{}}]}},"volumes":[{"name":"shared","configMap":{"name":"x"}}]}}`), &vmi))
	l := New(Config{Files: dir, Private: dir}, &vmi, Tools{Hypervisor: looked{state: guest.Running},
		FileSystems: virtiofs.New(self, "/virtiofsd", processes, zerolog.Nop())}, zerolog.Nop())
	_, err := l.fileSystems()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	d, err := l.domain.Next(ctx, 1)
	require.NoError(t, err, "no problem is reported")
	require.Equal(t, "the file system shared cannot be used until the guest is restarted: its virtiofsd has ended",
		d.GetProblem())
}

// TestIgnoresVirtiofsdThatEndsWithItsGuest: every virtiofsd does.
func TestIgnoresVirtiofsdThatEndsWithItsGuest(t *testing.T) {
	for name, c := range map[string]struct {
		hypervisor looked
		problem    bool
	}{
		"runs":        {looked{state: guest.Running}, true},
		"paused":      {looked{state: guest.Paused}, true},
		"off":         {looked{state: guest.Off}, false},
		"crashed":     {looked{state: guest.Crashed}, false},
		"gone":        {looked{state: guest.Gone}, false},
		"not started": {looked{state: guest.Absent}, false},
		"not known":   {looked{state: guest.Running, err: errors.New("libvirt is away")}, false},
	} {
		l := New(Config{}, nil, Tools{Hypervisor: c.hypervisor}, zerolog.Nop())
		l.reportLostFileSystem("shared")
		require.Equal(t, c.problem, l.domain.Domain().GetProblem() != "", name)
	}
}
