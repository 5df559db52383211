package rpc

import (
	"errors"
	"fmt"
)

// Limits for GuestDetails: bytes, elements in each list, and disks of a file system. A launcher cuts its answers to
// them. Callers check them as well, since the smallest elements take forty times their size once they are decoded.
const (
	MaxDetailsBytes = 256 << 10
	MaxDetails      = 256
	MaxDetailsDisks = 16
)

var errTooManyDetails = errors.New("the answer exceeds the limits of a launcher")

// CheckDetails returns an error if an answer exceeds the limits.
func CheckDetails(d *GuestDetailsResponse) error {
	if max(len(d.GetCommands()), len(d.GetUsers()), len(d.GetFileSystems())) > MaxDetails {
		return errTooManyDetails
	}
	for _, f := range d.GetFileSystems() {
		if len(f.GetDisks()) > MaxDetailsDisks {
			return fmt.Errorf("file system %.64q: %w", f.GetMountPoint(), errTooManyDetails)
		}
	}
	return nil
}
