package observe

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

func TestIgnoresInvalidSeconds(t *testing.T) {
	length := int64(300)
	for text, want := range map[string]*int64{
		"": nil, "x": nil, "-1": nil, "1.5": nil, "99999999999999999999": nil, "2147483648": nil,
		"0": new(int64), "300": &length,
	} {
		m := &kubevirt.VirtualMachineInstanceMigration{}
		m.Annotations = map[string]string{contract.AnnotationUnschedulableTimeout: text}
		require.Equal(t, want, Migration(m).UnschedulableSeconds, text)
	}
}

func TestIgnoresInvalidConnections(t *testing.T) {
	for text, want := range map[string]int{"": 0, "x": 0, "-4": 0, "1": 0, "2": 2, "8": 8, "9": 0, "1000000": 0} {
		m := &kubevirt.VirtualMachineInstanceMigration{}
		m.Annotations = map[string]string{contract.AnnotationConnections: text}
		require.Equal(t, want, Migration(m).Connections, text)
	}
}

func TestCapsMigration(t *testing.T) {
	long := strings.Repeat("ä", 10_000)
	m := &kubevirt.VirtualMachineInstanceMigration{}
	m.Spec.VMIName = long
	m.Annotations = map[string]string{contract.AnnotationEvacuation: long, contract.AnnotationRequestedBy: long}
	for range 100 {
		m.Finalizers = append(m.Finalizers, long)
		m.Status.Conditions = append(m.Status.Conditions, kubevirt.VirtualMachineInstanceMigrationCondition{
			Type: kubevirt.VirtualMachineInstanceMigrationConditionType(long), Message: long})
		m.Status.PhaseTransitionTimestamps = append(m.Status.PhaseTransitionTimestamps,
			kubevirt.VirtualMachineInstanceMigrationPhaseTransitionTimestamp{})
	}
	o := Migration(m)
	require.Equal(t, m.Finalizers, o.Finalizers, "what is written back whole is not cut")
	require.Len(t, o.Conditions, 32)
	require.Len(t, o.PhaseTimes, 16)
	for _, s := range []string{o.VMIName, o.Evacuates, o.Actor, o.Conditions[0].Type, o.Conditions[0].Message} {
		require.LessOrEqual(t, len(s), 512)
	}
	state := MigrationState(&kubevirt.VirtualMachineInstanceMigrationState{FailureReason: long,
		TargetPod: long})
	require.LessOrEqual(t, len(state.FailureReason), 512)
	require.LessOrEqual(t, len(state.TargetPod), 256)
}

func TestObservesMigrationState(t *testing.T) {
	require.Nil(t, MigrationState(nil))
	require.Equal(t, &contract.MigrationState{},
		MigrationState(&kubevirt.VirtualMachineInstanceMigrationState{}))
	start := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("x", 3600)))
	policy, yes, timeout, downtime := "fast", true, int64(10), uint64(1<<63+1)
	bandwidth := resource.MustParse("64Mi")
	got := MigrationState(&kubevirt.VirtualMachineInstanceMigrationState{
		MigrationUID: "m", SourceNode: "node1", TargetNode: "node2", StartTimestamp: &start,
		MigrationPolicyName: &policy, Mode: kubevirt.MigrationPaused, MigrationNetworkType: kubevirt.Pod,
		TargetDirectMigrationNodePorts: map[string]int{"8188": 0, "x": 1, "-3": 0, "70000": 0},
		VMIMConfigurationOptions: &kubevirt.VMIMConfigurationOptions{BandwidthPerMigration: &bandwidth,
			CompletionTimeoutPerGiB: &timeout, AllowWorkloadDisruption: &yes, MaxDowntimeMs: &downtime},
		Completed: true, Failed: true, FailureReason: "why", AbortStatus: kubevirt.MigrationAbortFailed,
	})
	require.Equal(t, &contract.MigrationState{
		MigrationUID: "m", SourceNode: "node1", TargetNode: "node2", Start: start.UTC(), PolicyName: "fast",
		Mode: "Paused", Network: "Pod", TargetPort: 8188, Completed: true, Failed: true, FailureReason: "why",
		AbortStatus: "Failed",
		Configuration: &contract.MigrationConfiguration{Bandwidth: 64 << 20, CompletionPerGiB: 10, Disruption: true,
			MaxDowntimeMs: 1<<63 - 1},
	}, got)
}
