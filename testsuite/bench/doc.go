// Package bench measures what a user waits for, beside the plainest way of doing the same on the same machine, so that
// the ratio says something where the figure itself says more about the machine. Nothing here fails for being slow:
//
//	go test -run '^$' -bench . ./testsuite/bench
package bench
