package world_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	memoryLimit = 12 << 30 // in bytes; soft
	maxLeftOver = 500      // goroutines of thousands of worlds that have ended
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	// Worlds that have ended stay in memory for a while, some MiB each: the collector is to keep up with thousands.
	debug.SetMemoryLimit(memoryLimit)
	code := m.Run()
	// One that is left over keeps its world, and what was learnt of the SDK's inside may be outdated.
	if n := runtime.NumGoroutine(); code == 0 && n > maxLeftOver {
		fmt.Fprintf(os.Stderr, "%d goroutines are left over\n", n)
		code = 1
	}
	os.Exit(code)
}
