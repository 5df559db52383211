package agent

import "time"

// Freeze has the guest flush its file systems and block all writes to them until Thaw. It succeeds if they are already
// frozen.
func Freeze(c Channel, timeout time.Duration) error {
	frozen, err := Frozen(c, timeout)
	if err != nil || frozen {
		return err
	}
	return call(c, "guest-fsfreeze-freeze", nil, timeout, nil)
}

// Frozen reports whether the guest's file systems are frozen.
func Frozen(c Channel, timeout time.Duration) (bool, error) {
	var status string
	err := call(c, "guest-fsfreeze-status", nil, timeout, &status)
	return status == "frozen", err
}

// Thaw has the guest accept writes again. It succeeds if nothing is frozen.
func Thaw(c Channel, timeout time.Duration) error {
	return call(c, "guest-fsfreeze-thaw", nil, timeout, nil)
}
