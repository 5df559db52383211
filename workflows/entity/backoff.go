package entity

import "time"

// Evacuations and workload updates of an instance of which others have failed wait as with KubeVirt: 20 s, doubled with
// each that has failed since one succeeded. KubeVirt keeps no more than five of them.
const (
	backOff     = 20 * time.Second
	backOffMost = 5
)

// BackOffEnd is when the next one may begin; zero: at any time.
func BackOffEnd(failures int, last time.Time) time.Time {
	if failures == 0 || last.IsZero() {
		return time.Time{}
	}
	return last.Add(backOff << (min(failures, backOffMost) - 1))
}
