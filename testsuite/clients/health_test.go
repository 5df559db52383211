package clients

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// health is what clients make of a state: the status by kstatus, and Argo CD's health ("": it does not judge the kind).
type health struct {
	kstatus status.Status
	argo    string
}

// healths returns what clients make of each state of each kind. It is what they make of KubeVirt's own objects in that
// state: kstatus reads observedGeneration and the condition Ready, and KubeVirt has neither in migrations and replica
// sets, Ready=False in a VM that is stopped as its spec says, and no condition Stalled. Argo CD's scripts read more.
func healths() map[string]map[string]health {
	const (
		current, inProgress            = status.CurrentStatus, status.InProgressStatus
		healthy, progressing, degraded = "Healthy", "Progressing", "Degraded"
		suspended                      = "Suspended"
	)
	deleted := health{status.TerminatingStatus, progressing}
	return map[string]map[string]health{
		"VirtualMachine": {
			noStatus:                        {current, progressing}, // until the controller's first write
			"Provisioning, no instance":     {inProgress, suspended},
			"DataVolumeError, no instance":  {inProgress, suspended},
			"Starting, no instance":         {inProgress, suspended},
			"Starting":                      {inProgress, progressing},
			"ErrorPvcNotFound":              {inProgress, progressing},
			"WaitingForVolumeBinding":       {inProgress, progressing},
			"ErrorUnschedulable":            {inProgress, progressing},
			"ErrImagePull":                  {inProgress, progressing},
			"ImagePullBackOff":              {inProgress, progressing},
			"Running":                       {current, healthy},
			"Running, not ready":            {inProgress, progressing},
			"Migrating":                     {current, healthy},
			"Paused, ready":                 {current, suspended}, // until the pod's readiness gate is closed
			"Paused":                        {inProgress, suspended},
			"Stopping, ready":               {current, healthy}, // until the pod is being deleted
			"Stopping":                      {inProgress, progressing},
			"Stopped":                       {inProgress, progressing},
			"Stopped, no instance":          {inProgress, suspended},
			"CrashLoopBackOff":              {inProgress, progressing},
			"CrashLoopBackOff, no instance": {inProgress, suspended},
			beingDeleted:                    deleted,
		},
		"VirtualMachineInstance": {
			"Pending":                    {inProgress, progressing},
			"Scheduling":                 {inProgress, progressing},
			"Scheduled":                  {inProgress, progressing},
			"Running":                    {current, healthy},
			"Running, not ready":         {inProgress, degraded},
			"Running, paused":            {current, suspended},
			"Running, not ready, paused": {inProgress, suspended},
			"Succeeded":                  {inProgress, suspended},
			"Failed":                     {inProgress, degraded},
			beingDeleted:                 deleted,
		},
		"VirtualMachineInstanceMigration": {
			noStatus: {current, ""}, "Pending": {current, ""}, "Running": {current, ""}, "Succeeded": {current, ""},
			"Failed": {current, ""}, beingDeleted: deleted,
		},
		"VirtualMachineInstanceReplicaSet": {
			"scaled": {current, ""}, "scaling": {current, ""}, "scaling, ReplicaFailure": {current, ""},
			"scaled, ReplicaFailure": {current, ""}, beingDeleted: deleted,
		},
		"DataVolume": {
			noStatus: {current, progressing}, "ImportInProgress": {current, progressing},
			"Succeeded": {current, healthy},
		},
	}
}

// healthOf returns what the table has for a state, with the row's name. kstatus takes an object whose generation is not
// observed for one in progress. Argo CD takes a VM that is halted and has no instance for healthy.
func healthOf(kind, state string) (want health, row string, known bool) {
	row, isHalted := strings.CutSuffix(state, halted)
	row, isOlder := strings.CutSuffix(row, ", "+olderGeneration)
	want, known = healths()[kind][row]
	if isOlder {
		want.kstatus = status.InProgressStatus
	}
	if isHalted && (row == noStatus || strings.HasSuffix(row, noInstance)) {
		want.argo = "Healthy"
	}
	return want, row, known
}

// TestHealth compares each state of the stories with the table. Each row has to come up.
func TestHealth(t *testing.T) {
	seen, _ := stories()
	missing := healths()
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		o := seen[id]
		kind := o.object.GetKind()
		want, row, known := healthOf(kind, o.state)
		if !known {
			t.Errorf("no row for %s (story %s)", id, o.story)
			continue
		}
		delete(missing[kind], row)
		got, err := status.Compute(o.object)
		require.NoError(t, err)
		require.Equal(t, want.kstatus, got.Status, "kstatus of %s (story %s): %s", id, o.story, got.Message)
		h := healthInArgoCD(t, o.object)
		require.Equal(t, want.argo, h.Status, "Argo CD of %s (story %s): %s", id, o.story, h.Message)
	}
	for kind, rows := range missing {
		require.Empty(t, rows, "no story has these states of a %s", kind)
	}
}

// followsTemplate is the story of a VM whose instance follows its template while it runs. As with KubeVirt, the status
// does not show it until the VM is restarted.
const followsTemplate = "instance-follows-its-machine"

// TestHealthAtEnds: when a story has ended, clients take no running VM for one that changes.
func TestHealthAtEnds(t *testing.T) {
	_, atEnd := stories()
	running := 0
	for _, o := range atEnd {
		isRunning := o.object.GetKind() == "VirtualMachine" && strings.HasPrefix(o.state, "Running")
		if !isRunning || o.story == followsTemplate {
			continue
		}
		running++
		require.Equal(t, "Running", o.state, "story %s", o.story)
	}
	require.Greater(t, running, 50)
}
