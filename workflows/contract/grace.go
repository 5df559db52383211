package contract

import "time"

// Seconds that a guest gets to shut down. Users may ask for any number: it is the readers that bound it.
const (
	defaultGrace int64 = 30
	// graceMargin is how much longer a kubelet waits than the guest is given: the launcher kills the guest itself, and
	// says so in its termination message.
	graceMargin int64 = 30
	// maxGrace is what Kubernetes can count in nanoseconds, with room for what it adds to it: some 285 years.
	maxGrace int64 = 9_000_000_000
)

// maxWait bounds how long a transition waits for guests: a deadline that nobody lives to see helps nobody.
const maxWait = 7 * 24 * time.Hour

// Grace is how long a guest may take to shut down, of a VMI with those terminationGracePeriodSeconds: KubeVirt's 30 s
// for nil. It lies between 0 and 285 years.
func Grace(seconds *int64) time.Duration { return time.Duration(graceSeconds(seconds)) * time.Second }

// GraceWait is Grace for those who wait for it: at most seven days.
func GraceWait(seconds *int64) time.Duration { return min(Grace(seconds), maxWait) }

// PodGrace is the grace period of the launcher pod of a VMI with those terminationGracePeriodSeconds, in seconds.
func PodGrace(seconds *int64) int64 { return graceSeconds(seconds) + graceMargin }

func graceSeconds(seconds *int64) int64 {
	if seconds == nil {
		return defaultGrace
	}
	return min(max(*seconds, 0), maxGrace)
}
