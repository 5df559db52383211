// Command plots draws what the command scale has measured (--out) as SVG images. It is a module of its own, because its
// drawing library is not a dependency of the product.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// report is the report of the command scale; durations are in nanoseconds.
type report struct {
	Steps []step `json:"steps"`
}

type step struct {
	Stage string          `json:"stage"`
	What  string          `json:"what"`
	Done  []time.Duration `json:"done"` // each VM's, from the first request
	Calls struct {
		By map[string]int `json:"by"`
	} `json:"calls"`
	Used map[string]struct {
		CPU      time.Duration `json:"cpu"`
		Resident uint64        `json:"resident"` // bytes
	} `json:"used"`
	Legs []struct {
		What   string        `json:"what"`
		Median time.Duration `json:"median"`
	} `json:"legs"`
	Histories *struct { // nil: there was no Temporal
		Machines, Events, Tasks, FailedTasks, Signals int
	} `json:"histories"`
}

func main() {
	in := flag.String("in", "", "the report of the command scale")
	out := flag.String("out", ".", "folder for the images")
	flag.Parse()
	if err := all(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

func all(in, out string) error {
	b, err := os.ReadFile(in)
	if err != nil {
		return fmt.Errorf("-in: %w", err)
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("-in: %s is not what the command scale writes: %w", in, err)
	}
	load := slices.DeleteFunc(r.Steps, func(s step) bool { return s.Stage != "load" || len(s.Done) == 0 })
	if len(load) == 0 {
		return fmt.Errorf("-in: %s has no step under load", in)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	drawn := map[string]*picture{}
	for name, draw := range map[string]func([]step) (*picture, error){
		"scale-progress.svg":  progress,
		"scale-requests.svg":  requests,
		"scale-processes.svg": processes,
		"scale-memory.svg":    memory,
		"scale-legs.svg":      legs,
		"scale-histories.svg": histories,
	} {
		p, err := draw(load)
		if err != nil {
			return fmt.Errorf("drawing %s: %w", name, err)
		}
		drawn[name] = p
	}
	for name, p := range drawn {
		if p == nil {
			fmt.Printf("%s is left out: %s has no figures for it\n", name, in)
			continue
		}
		if err := p.write(filepath.Join(out, name)); err != nil {
			return fmt.Errorf("drawing %s: %w", name, err)
		}
	}
	return nil
}
