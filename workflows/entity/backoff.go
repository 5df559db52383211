package entity

import "time"

// Back-off of evacuations and workload updates of an instance after failed ones, as KubeVirt's: 20 s, doubled with each
// failure since the last success. KubeVirt keeps at most five of them.
const (
	backOff     = 20 * time.Second
	backOffMost = 5
)

// BackOffEnd returns when the next one may begin; zero: at any time.
func BackOffEnd(failures int, last time.Time) time.Time {
	if failures == 0 || last.IsZero() {
		return time.Time{}
	}
	return last.Add(backOff << (min(failures, backOffMost) - 1))
}
