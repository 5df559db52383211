package migration

import "time"

const (
	// usualDowntime is QEMU's own limit.
	usualDowntime = 300 * time.Millisecond
	// downtimeSteps is the number of copying rounds until the guest may stand still for the longest permitted time.
	downtimeSteps = 4
)

// downtimeLimit returns the current limit for the guest's downtime: most is the longest permitted, and iteration QEMU's
// copying round. QEMU stops the guest as soon as it expects the rest to take no longer than its limit, even where one
// more round would leave nearly nothing: on a fast network that is in the first round of a small guest. So the limit
// begins at an eighth of the longest, and doubles with each further round that the guest has made necessary. A guest
// that changes its memory fast needs three more rounds for it. (OpenStack Nova raises its limit in steps of time.)
func downtimeLimit(most time.Duration, iteration int) time.Duration {
	if most <= 0 {
		most = usualDowntime
	}
	step := min(max(iteration, 1), downtimeSteps)
	return max(most>>(downtimeSteps-step), time.Millisecond).Truncate(time.Millisecond)
}
