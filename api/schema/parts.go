package schema

import (
	"bytes"
	"fmt"
)

// MaxParts is how many parts an object may have.
const MaxParts = 100_000

// Parts is how many parts JSON has at most: commas and opening brackets, those in texts with them. Whatever it is
// decoded into takes memory for each, so that a few MiB of the smallest would take gigabytes.
func Parts(raw []byte) (n int) {
	for _, sep := range []string{",", "{", "["} {
		n += bytes.Count(raw, []byte(sep))
	}
	return n
}

// CheckParts says that JSON has more parts than an object may have. It is asked before anything decodes it.
func CheckParts(raw []byte) error {
	if Parts(raw) > MaxParts {
		return fmt.Errorf("the object has more than %d parts", MaxParts)
	}
	return nil
}
