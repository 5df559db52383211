package suite

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// runsPerTurn is the number of runs after which each test has run once.
const runsPerTurn = 8

// TakeTurn skips a test unless VIRTFLOW_TURN, a number that grows with each run, is its turn. Turns count from 0.
// Without the variable all tests run.
func TakeTurn(t *testing.T, turn int) {
	t.Helper()
	if !IsDue(t, turn) {
		t.Skipf("runs when VIRTFLOW_TURN is %d modulo %d; it is %s", turn, runsPerTurn, os.Getenv("VIRTFLOW_TURN"))
	}
}

// IsDue reports whether it is the turn of the nth of many similar cases.
func IsDue(t *testing.T, n int) bool {
	t.Helper()
	run, ok := Turn(t)
	return !ok || run%runsPerTurn == n%runsPerTurn
}

// Turn returns VIRTFLOW_TURN; false: it is not set.
func Turn(t *testing.T) (run int, ok bool) {
	t.Helper()
	number := os.Getenv("VIRTFLOW_TURN")
	if number == "" {
		return 0, false
	}
	run, err := strconv.Atoi(number)
	require.NoError(t, err, "VIRTFLOW_TURN")
	return run, true
}
