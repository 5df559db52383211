package world_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const maxLeftOver = 500 // goroutines of thousands of worlds that have ended

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code := m.Run()
	// A goroutine that is left over keeps its world in memory: what engine.go assumes of the SDK may be outdated.
	if n := runtime.NumGoroutine(); code == 0 && n > maxLeftOver {
		fmt.Fprintf(os.Stderr, "%d goroutines are left over\n", n)
		code = 1
	}
	os.Exit(code)
}
