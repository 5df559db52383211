package schema

import (
	"bytes"
	"fmt"
)

// MaxParts is the most parts of an object.
const MaxParts = 100_000

// Parts returns the most parts that JSON can have: commas and opening brackets, including those in texts. A decoder
// allocates memory for each, so that a few MiB of the smallest would take gigabytes.
func Parts(raw []byte) (n int) {
	for _, sep := range []string{",", "{", "["} {
		n += bytes.Count(raw, []byte(sep))
	}
	return n
}

// CheckParts returns an error if JSON has too many parts. It is called before the JSON is decoded.
func CheckParts(raw []byte) error {
	if Parts(raw) > MaxParts {
		return fmt.Errorf("the object has more than %d parts", MaxParts)
	}
	return nil
}
