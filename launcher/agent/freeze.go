package agent

import "time"

// Freeze has the guest write everything out and hold all writing to its file systems until Thaw. Freezing what is frozen succeeds.
func Freeze(c Channel, timeout time.Duration) error {
	var status string
	if err := call(c, "guest-fsfreeze-status", nil, timeout, &status); err != nil {
		return err
	}
	if status == "frozen" {
		return nil
	}
	return call(c, "guest-fsfreeze-freeze", nil, timeout, nil)
}

// Thaw lets the guest write again. Thawing what is thawed succeeds.
func Thaw(c Channel, timeout time.Duration) error {
	return call(c, "guest-fsfreeze-thaw", nil, timeout, nil)
}
