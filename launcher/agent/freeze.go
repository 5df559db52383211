package agent

import "time"

// Freeze has the guest write everything out and hold all writing to its file systems until Thaw. Freezing what is
// frozen succeeds.
func Freeze(c Channel, timeout time.Duration) error {
	frozen, err := Frozen(c, timeout)
	if err != nil || frozen {
		return err
	}
	return call(c, "guest-fsfreeze-freeze", nil, timeout, nil)
}

// Frozen says whether the guest's file systems are.
func Frozen(c Channel, timeout time.Duration) (bool, error) {
	var status string
	err := call(c, "guest-fsfreeze-status", nil, timeout, &status)
	return status == "frozen", err
}

// Thaw lets the guest write again. Thawing what is thawed succeeds.
func Thaw(c Channel, timeout time.Duration) error {
	return call(c, "guest-fsfreeze-thaw", nil, timeout, nil)
}
