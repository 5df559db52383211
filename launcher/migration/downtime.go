package migration

import "time"

const (
	// usualDowntime is QEMU's own limit.
	usualDowntime = 300 * time.Millisecond
	// downtimeSteps is how many rounds of copying it takes until the guest may stand still for as long as is allowed.
	downtimeSteps = 4
)

// downtimeLimit is how long the guest may stand still by now, most being what is allowed and iteration QEMU's round.
// QEMU stops the guest as soon as it expects the rest to take no longer than its limit, also where one more round would
// leave nearly nothing of it: on a fast line that is the first look at a small guest. So the limit is an eighth of what
// is allowed at first, and doubles with each further round that the guest has made necessary. A guest that changes its
// memory fast takes three rounds more for it. (OpenStack Nova raises its limit in steps of time.)
func downtimeLimit(most time.Duration, iteration int) time.Duration {
	if most <= 0 {
		most = usualDowntime
	}
	step := min(max(iteration, 1), downtimeSteps)
	return max(most>>(downtimeSteps-step), time.Millisecond).Truncate(time.Millisecond)
}
