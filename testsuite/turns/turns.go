package turns

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// count is how many runs it takes until each test has had its turn.
const count = 8

// Take skips a test where VIRTFLOW_TURN, a number that grows with each run, says that it is the turn of others. Turns
// count from 0. Without the variable all tests run.
func Take(t *testing.T, turn int) {
	t.Helper()
	if !Due(t, turn) {
		t.Skipf("runs when VIRTFLOW_TURN is %d modulo %d; it is %s", turn, count, os.Getenv("VIRTFLOW_TURN"))
	}
}

// Due says whether it is the turn of the nth of many cases that are alike.
func Due(t *testing.T, n int) bool {
	t.Helper()
	run, ok := Run(t)
	return !ok || run%count == n%count
}

// Run is VIRTFLOW_TURN; false: it is not set.
func Run(t *testing.T) (run int, ok bool) {
	t.Helper()
	number := os.Getenv("VIRTFLOW_TURN")
	if number == "" {
		return 0, false
	}
	run, err := strconv.Atoi(number)
	require.NoError(t, err, "VIRTFLOW_TURN")
	return run, true
}
