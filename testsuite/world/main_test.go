package world_test

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// memoryLimit in bytes is soft.
const memoryLimit = 12 << 30

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	// Worlds that have ended stay in memory for a while, some MiB each: the collector is to keep up with thousands.
	debug.SetMemoryLimit(memoryLimit)
	os.Exit(m.Run())
}
