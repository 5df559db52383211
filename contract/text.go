package contract

import "strings"

// Cut returns the valid UTF-8 in the first n bytes of a text: no character is split.
func Cut(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }
