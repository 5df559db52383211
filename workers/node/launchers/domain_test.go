package launchers

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
)

func TestObservation(t *testing.T) {
	require.Equal(t, contract.DomainObservation{
		PodUID: pod, Sequence: 3, State: contract.DomainRunning, AgentConnected: true, MachineType: "pc-q35-7.2",
		GuestMemory: 128 << 20,
		Interfaces: []contract.DomainInterface{
			{Name: "default", MAC: "02:00:00:11:22:33", PodInterfaceName: "eth0", QueueCount: 1, LinkState: "up",
				Bridged: true}},
		Volumes: []contract.DomainVolume{{Name: "disk", Target: "vda", Size: 1 << 20}},
		Migration: &contract.MigrationProgress{
			UID: "u", Role: "source", Since: time.UnixMilli(1700000000000).UTC(), Total: 7, Processed: 5, Remaining: 2,
			DirtyRate: 3, Rate: 4, Iteration: 2, DowntimeMs: 300, Mode: "PreCopy",
		},
	}, observation(pod, &rpc.Domain{
		Sequence: 3, State: rpc.DomainState_DOMAIN_STATE_RUNNING, AgentConnected: true, MachineType: "pc-q35-7.2",
		GuestMemoryBytes: 128 << 20,
		Interfaces: []*rpc.DomainInterface{
			{Name: "default", Mac: "02:00:00:11:22:33", PodInterface: "eth0", Queues: 1, LinkState: "up",
				Bridged: true}},
		Volumes: []*rpc.DomainVolume{{Name: "disk", Target: "vda", SizeBytes: 1 << 20}},
		Migration: &rpc.MigrationProgress{
			Migration: "u", Role: rpc.MigrationRole_MIGRATION_ROLE_SOURCE, Since: 1700000000000, Total: 7, Processed: 5,
			Remaining: 2, DirtyRate: 3, Rate: 4, Iteration: 2, DowntimeMs: 300,
			Mode: rpc.MigrationMode_MIGRATION_MODE_PRE_COPY,
		},
	}))
}

// TestLimitsMigrationStatus: a launcher's migration status is cut to size, and can be encoded as JSON.
func TestLimitsMigrationStatus(t *testing.T) {
	p := migrationProgress(&rpc.MigrationProgress{Migration: strings.Repeat("x", 1000), Role: 99, Mode: 99,
		Since: math.MaxInt64, Total: -1, Iteration: -1})
	require.Equal(t, &contract.MigrationProgress{UID: strings.Repeat("x", maxName)}, p)
	_, err := json.Marshal(p)
	require.NoError(t, err)
	require.Nil(t, departure(nil))
	require.Nil(t, departure(&rpc.MigrationEvent{Event: &rpc.MigrationEvent_Left{Left: &rpc.MigrationLeft{}}}),
		"without proof the guest has not left")
	d := departure(&rpc.MigrationEvent{Event: &rpc.MigrationEvent_Stayed{
		Stayed: &rpc.MigrationStayed{Reason: strings.Repeat("x", 1<<16) + "\n"}}})
	require.Equal(t, &Departure{Reason: strings.Repeat("x", maxText)}, d)
	require.Len(t, digest(make([]byte, 1000)), 64)
}

func TestLimitsObservation(t *testing.T) {
	d := &rpc.Domain{State: 99, Reason: strings.Repeat("é", 1<<18), GuestMemoryBytes: -1,
		MachineType: "a\nb\x1b[31m\xff", Problem: strings.Repeat("x", 1000)}
	for range 1000 {
		d.Interfaces = append(d.Interfaces, &rpc.DomainInterface{Name: strings.Repeat("x", 1000), Queues: -4})
		d.Volumes = append(d.Volumes, &rpc.DomainVolume{Name: strings.Repeat("x", 1000), SizeBytes: -4})
	}
	o := observation(pod, d)
	require.Equal(t, contract.DomainAbsent, o.State)
	require.Equal(t, strings.Repeat("é", maxName/2), o.Reason)
	require.Equal(t, "a b[31m", o.MachineType)
	require.Zero(t, o.GuestMemory)
	require.Len(t, o.Problem, maxGuestText)
	require.Len(t, o.Interfaces, maxElements)
	require.Len(t, o.Volumes, maxElements)
	require.Len(t, o.Interfaces[0].Name, maxName)
	require.Zero(t, o.Interfaces[0].QueueCount)
	require.Zero(t, o.Volumes[0].Size)
}

func TestLimitsGuestInfo(t *testing.T) {
	g := &rpc.GuestInfo{AgentProblem: strings.Repeat("x", 1000),
		Os: &rpc.GuestOS{Id: "debian\n\x1b[31m\xff", PrettyName: strings.Repeat("é", 1<<16)}}
	g.Interfaces = append(g.Interfaces, &rpc.GuestInterface{Mac: "no", Name: "left out"},
		&rpc.GuestInterface{Mac: "02:00:00:AA:00:01", Addresses: []string{"10.0.0.1", "evil", "fe80::1%x", "fe80::1"}})
	for range 1000 {
		g.Interfaces = append(g.Interfaces,
			&rpc.GuestInterface{Mac: "02:00:00:aa:00:02", Name: strings.Repeat("x", 1000),
				Addresses: strings.Fields(strings.Repeat("10.0.0.1 ", 1000))})
	}
	o := observation(pod, &rpc.Domain{Guest: g}).Guest
	require.Len(t, o.AgentProblem, maxName)
	require.Equal(t, "debian [31m", o.OS.ID)
	require.Equal(t, strings.Repeat("é", maxGuestText/2), o.OS.PrettyName)
	require.Len(t, o.Interfaces, maxGuestInterfaces)
	require.Equal(t, contract.GuestInterface{MAC: "02:00:00:aa:00:01", IPs: []string{"10.0.0.1", "fe80::1"}},
		o.Interfaces[0])
	require.Len(t, o.Interfaces[1].Name, maxName)
	require.Len(t, o.Interfaces[1].IPs, maxAddresses)
	require.Nil(t, observation(pod, &rpc.Domain{}).Guest)
}

func TestPausedReason(t *testing.T) {
	for said, want := range map[rpc.PauseReason]string{
		rpc.PauseReason_PAUSE_REASON_UNSPECIFIED: "", // a launcher of an earlier version
		rpc.PauseReason_PAUSE_REASON_USER:        "",
		rpc.PauseReason_PAUSE_REASON_IO_ERROR:    contract.PausedIOError,
		rpc.PauseReason_PAUSE_REASON_NO_SPACE:    contract.PausedNoSpace,
		rpc.PauseReason_PAUSE_REASON_MIGRATION:   contract.PausedMigration,
		rpc.PauseReason_PAUSE_REASON_OTHER:       contract.PausedOther,
	} {
		require.Equal(t, want, observation(pod,
			&rpc.Domain{State: rpc.DomainState_DOMAIN_STATE_PAUSED, PauseReason: said}).Reason)
	}
	require.Empty(t, observation(pod, &rpc.Domain{
		State: rpc.DomainState_DOMAIN_STATE_RUNNING, PauseReason: rpc.PauseReason_PAUSE_REASON_IO_ERROR,
	}).Reason)
}
