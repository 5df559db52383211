package cluster

import (
	"strconv"

	"github.com/virtflow/virtflow/contract"
)

// migrationStatus returns the owned part of a migration's status, whole: each field is there, with null where it is to
// be removed.
func migrationStatus(s *contract.MigrationStatus) merge {
	m := merge{
		"conditions":                conditions(s.Conditions),
		"phaseTransitionTimestamps": phaseTimes(s.PhaseTimes),
		"migrationState":            migrationState(s.State),
	}
	set(m, "phase", s.Phase)
	return m
}

// migrationState is status.migrationState of a VMI or a migration, whole; nil removes it. A merge patch knows no port
// of an earlier migration: it stays until a state without one is written, as that of each migration's beginning is.
func migrationState(s *contract.MigrationState) any {
	if s == nil {
		return nil
	}
	m := merge{
		"startTimestamp":                 timestamp(&s.Start),
		"endTimestamp":                   timestamp(&s.End),
		"targetNodeDomainReadyTimestamp": timestamp(&s.TargetReady),
		"targetDirectMigrationNodePorts": nil,
		"migrationConfiguration":         migrationConfiguration(s.Configuration),
	}
	if s.TargetPort > 0 { // 0: it leads to all that is to be reached there
		m["targetDirectMigrationNodePorts"] = merge{strconv.Itoa(s.TargetPort): 0}
	}
	set(m, "migrationUid", s.MigrationUID)
	set(m, "sourceNode", s.SourceNode)
	set(m, "sourcePod", s.SourcePod)
	set(m, "targetNode", s.TargetNode)
	set(m, "targetPod", s.TargetPod)
	set(m, "targetNodeAddress", s.TargetAddress)
	set(m, "targetNodeDomainDetected", s.TargetDetected)
	set(m, "migrationNetworkType", s.Network)
	set(m, "migrationPolicyName", s.PolicyName)
	set(m, "mode", s.Mode)
	set(m, "abortRequested", s.AbortRequested)
	set(m, "abortStatus", s.AbortStatus)
	set(m, "completed", s.Completed)
	set(m, "failed", s.Failed)
	set(m, "failureReason", s.FailureReason)
	return m
}

// migrationConfiguration returns how a guest moves, as KubeVirt shows it. It has no field for the number of
// connections.
func migrationConfiguration(c *contract.MigrationConfiguration) any {
	if c == nil {
		return nil
	}
	m := merge{
		"bandwidthPerMigration":   quantity(c.Bandwidth),
		"completionTimeoutPerGiB": c.CompletionPerGiB,
		"progressTimeout":         c.Progress,
		"allowAutoConverge":       c.AutoConverge,
		"allowPostCopy":           c.PostCopy,
		"allowWorkloadDisruption": c.Disruption,
		"unsafeMigrationOverride": c.Unsafe,
	}
	set(m, "maxDowntimeMs", c.MaxDowntimeMs)
	return m
}

// migrationAnnotations returns the known statistics of a move.
func migrationAnnotations(s *contract.MigrationStats) merge {
	out := merge{}
	for name, measure := range map[string]int64{
		contract.AnnotationMigrationDowntime:   s.DowntimeMs,
		contract.AnnotationMigrationTotal:      s.TotalMs,
		contract.AnnotationMigrationBytes:      s.Bytes,
		contract.AnnotationMigrationIterations: s.Iterations,
	} {
		if measure > 0 {
			out[name] = strconv.FormatInt(measure, 10)
		}
	}
	return out
}
