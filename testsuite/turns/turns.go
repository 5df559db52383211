package turns

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// count is how many runs it takes until each test has had its turn.
const count = 3

// Take skips a test where VIRTFLOW_TURN, a number that grows with each run, says that it is the turn of others. Turns
// count from 0. Without the variable all tests run.
func Take(t *testing.T, turn int) {
	t.Helper()
	number := os.Getenv("VIRTFLOW_TURN")
	if number == "" {
		return
	}
	n, err := strconv.Atoi(number)
	require.NoError(t, err, "VIRTFLOW_TURN")
	if n%count != turn {
		t.Skipf("runs when VIRTFLOW_TURN is %d modulo %d; it is %d", turn, count, n)
	}
}
