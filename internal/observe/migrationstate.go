package observe

import (
	"math"
	"slices"
	"strconv"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
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
	setIfGiven(&out.PolicyName, s.MigrationPolicyName)
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
	setIfGiven(&out.Start, moment(s.StartTimestamp))
	setIfGiven(&out.End, moment(s.EndTimestamp))
	setIfGiven(&out.TargetReady, moment(s.TargetNodeDomainReadyTimestamp))
	return out
}

// migrationConfiguration returns the configuration of a guest's migration.
func migrationConfiguration(c *kubevirt.VMIMConfigurationOptions) *contract.MigrationConfiguration {
	if c == nil {
		return nil
	}
	out := &contract.MigrationConfiguration{}
	if q := c.BandwidthPerMigration; q != nil {
		out.Bandwidth = q.Value()
	}
	if ms := c.MaxDowntimeMs; ms != nil {
		out.MaxDowntimeMs = int64(min(*ms, math.MaxInt64))
	}
	setIfGiven(&out.CompletionPerGiB, c.CompletionTimeoutPerGiB)
	setIfGiven(&out.Progress, c.ProgressTimeout)
	setIfGiven(&out.AutoConverge, c.AllowAutoConverge)
	setIfGiven(&out.PostCopy, c.AllowPostCopy)
	setIfGiven(&out.Disruption, c.AllowWorkloadDisruption)
	setIfGiven(&out.Unsafe, c.UnsafeMigrationOverride)
	return out
}

// setIfGiven sets a field unless from is nil.
func setIfGiven[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
