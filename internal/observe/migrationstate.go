package observe

import (
	"math"
	"slices"
	"strconv"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// MigrationState observes the status.migrationState of a VMI or a migration; nil is none.
func MigrationState(s *kubevirt.VirtualMachineInstanceMigrationState) *contract.MigrationState {
	if s == nil {
		return nil
	}
	out := &contract.MigrationState{
		MigrationUID:   word(string(s.MigrationUID)),
		SourceNode:     word(s.SourceNode),
		SourcePod:      word(s.SourcePod),
		TargetNode:     word(s.TargetNode),
		TargetPod:      word(s.TargetPod),
		TargetAddress:  word(s.TargetNodeAddress),
		Network:        word(string(s.MigrationNetworkType)),
		Configuration:  migrationConfiguration(s.VMIMConfigurationOptions),
		Mode:           word(string(s.Mode)),
		TargetDetected: s.TargetNodeDomainDetected,
		AbortRequested: s.AbortRequested,
		AbortStatus:    word(string(s.AbortStatus)),
		Completed:      s.Completed,
		Failed:         s.Failed,
		FailureReason:  contract.Cut(s.FailureReason, maxMessage),
	}
	given(&out.PolicyName, s.MigrationPolicyName)
	out.PolicyName = word(out.PolicyName)
	var ports []int
	for p := range s.TargetDirectMigrationNodePorts {
		if n, err := strconv.ParseUint(p, 10, 16); err == nil && n > 0 {
			ports = append(ports, int(n))
		}
	}
	if len(ports) > 0 {
		out.TargetPort = slices.Min(ports)
	}
	given(&out.Start, moment(s.StartTimestamp))
	given(&out.End, moment(s.EndTimestamp))
	given(&out.TargetReady, moment(s.TargetNodeDomainReadyTimestamp))
	return out
}

// migrationConfiguration is how the guest was, or is, to be moved.
func migrationConfiguration(c *kubevirt.VMIMConfigurationOptions) *contract.MigrationConfiguration {
	if c == nil {
		return nil
	}
	out := &contract.MigrationConfiguration{}
	if q := c.BandwidthPerMigration; q != nil {
		out.Bandwidth = q.Value()
	}
	if ms := c.MaxDowntimeMs; ms != nil {
		out.MaxDowntimeMs = int64(min(*ms, math.MaxInt64)) //nolint:gosec // bounded
	}
	given(&out.CompletionPerGiB, c.CompletionTimeoutPerGiB)
	given(&out.Progress, c.ProgressTimeout)
	given(&out.AutoConverge, c.AllowAutoConverge)
	given(&out.PostCopy, c.AllowPostCopy)
	given(&out.Disruption, c.AllowWorkloadDisruption)
	given(&out.Unsafe, c.UnsafeMigrationOverride)
	return out
}

func given[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
