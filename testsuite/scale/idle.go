package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/virtflow/virtflow/testsuite/processes"
)

// idle is the cost of a time in which all machines ran without any request of a user.
type idle struct {
	For   time.Duration             `json:"for"`
	Calls calls                     `json:"calls"` // about the machines
	Used  map[string]processes.Used `json:"used"`
}

// idle lets all machines of a stage run without any request of a user: then there may be no requests to the API server
// about them.
func (s *stage) idle(ctx context.Context) error {
	before, err := processes.Running(s.loaded.programs()...)
	if err != nil {
		return err
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(s.Idle):
	}
	now, err := processes.Running(s.loaded.programs()...)
	if err != nil {
		return err
	}
	out := idle{For: time.Since(began), Used: processes.Since(before, now)}
	if out.Calls, err = s.counted(began); err != nil {
		return err
	}
	s.report.Idle = &out
	printIdle(os.Stdout, s.count, s.object().plural, out)
	if s.KubeVirt {
		return nil // KubeVirt has no such property
	}
	s.found(exactly("requests and events while no user acted", 0, out.Calls.Total+out.Calls.Events))
	return nil
}

func printIdle(out io.Writer, count int, plural string, i idle) {
	fmt.Fprintf(out, "scale: idle, %s with %d %s: %d requests and %d events about them\n", round(i.For), count, plural,
		i.Calls.Total, i.Calls.Events)
	for _, name := range slices.Sorted(maps.Keys(i.Used)) {
		fmt.Fprintf(out, "scale:   %8.1f %% of a processor for %s, which has %d MiB\n",
			100*i.Used[name].CPU.Seconds()/i.For.Seconds(), name, i.Used[name].Resident>>20)
	}
}
