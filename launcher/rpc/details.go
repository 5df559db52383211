package rpc

import (
	"errors"
	"fmt"
)

// What GuestDetails may have at most: bytes, elements in each list, and disks of a file system. A launcher keeps to it.
// Whoever reads it holds others to it too, since the smallest elements take forty times their size once they are
// decoded.
const (
	MaxDetailsBytes = 256 << 10
	MaxDetails      = 256
	MaxDetailsDisks = 16
)

var errTooManyDetails = errors.New("there is more of it than a launcher tells")

// CheckDetails says that an answer has more than a launcher tells.
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
