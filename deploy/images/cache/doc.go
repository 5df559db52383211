// Package cache keeps what was built, by the hash of what went into it. A thing appears under its name only when it is
// complete: it is written beside and renamed, so a build that was killed is simply done again.
package cache
