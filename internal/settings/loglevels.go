package settings

import (
	"fmt"

	"github.com/rs/zerolog"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"
)

// LogLevels has the settings of configuration.developerConfiguration.logVerbosity as log levels. zerolog.Disabled
// asks for nothing: a process then logs what its flag asks for.
type LogLevels struct {
	// API is for the api server, Controller for control workers and crdwatch, and Launcher for new launchers.
	API, Controller, Launcher zerolog.Level
}

// LogLevels returns the levels that the cluster asks for.
func (s Settings) LogLevels() LogLevels {
	var v kubevirt.LogVerbosity
	if d := s.Configuration.DeveloperConfiguration; d != nil && d.LogVerbosity != nil {
		v = *d.LogVerbosity
	}
	return LogLevels{
		API: logLevel(v.VirtAPI), Controller: logLevel(v.VirtController), Launcher: logLevel(v.VirtLauncher),
	}
}

// The lowest verbosities of KubeVirt that ask for more than its default of 2 shows.
const (
	verbosityOfDebug = 3
	verbosityOfTrace = 6
)

func logLevel(verbosity uint) zerolog.Level {
	switch {
	case verbosity >= verbosityOfTrace:
		return zerolog.TraceLevel
	case verbosity >= verbosityOfDebug:
		return zerolog.DebugLevel
	default:
		return zerolog.Disabled
	}
}

// informer is an informer of the KubeVirt object, and of no other.
type informer interface {
	AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
}

// Follow calls f with the settings when an informer first sees the KubeVirt object, and after each change of it.
func Follow(i informer, f func(Settings)) error {
	now := func(o any) {
		if kv, ok := o.(*kubevirt.KubeVirt); ok {
			f(From(kv))
		}
	}
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: now, UpdateFunc: func(_, o any) { now(o) }, DeleteFunc: func(any) { f(From(nil)) },
	})
	if err != nil {
		return fmt.Errorf("following the KubeVirt object: %w", err)
	}
	return nil
}
