// Package bench measures what a user waits for, beside the simplest way of doing the same on the same machine, because
// the ratio depends less on the machine than the figure itself. No benchmark fails for being slow:
//
//	go test -run '^$' -bench . ./testsuite/bench
package bench
