package contract

import "time"

// Seconds that a guest gets to shut down. Users may set any number: these functions bound it.
const (
	defaultGrace int64 = 30
	// graceMargin is how much longer a kubelet waits than the guest is given: the launcher kills the guest itself, and
	// reports that in its termination message.
	graceMargin int64 = 30
	// maxGrace is the longest period that Kubernetes can count in nanoseconds, with room for what it adds to it: some
	// 285 years.
	maxGrace int64 = 9_000_000_000
)

// maxWait bounds how long a transition waits for guests: a deadline of years would be useless.
const maxWait = 7 * 24 * time.Hour

// Grace returns how long a guest may take to shut down, of a VMI with those terminationGracePeriodSeconds: KubeVirt's
// 30 s for nil. It lies between 0 and 285 years.
func Grace(seconds *int64) time.Duration { return time.Duration(graceSeconds(seconds)) * time.Second }

// GraceWait returns Grace for a process that waits for it: at most seven days.
func GraceWait(seconds *int64) time.Duration { return min(Grace(seconds), maxWait) }

// PodGrace returns the grace period of the launcher pod of a VMI with those terminationGracePeriodSeconds, in seconds.
func PodGrace(seconds *int64) int64 { return graceSeconds(seconds) + graceMargin }

func graceSeconds(seconds *int64) int64 {
	if seconds == nil {
		return defaultGrace
	}
	return min(max(*seconds, 0), maxGrace)
}
