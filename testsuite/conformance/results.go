package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// readResults reads the recorded specs; none if there is no file.
func readResults(path string) ([]spec, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the recorded outcomes: %w", err)
	}
	var specs []spec
	if err := json.Unmarshal(data, &specs); err != nil {
		return nil, fmt.Errorf("read the recorded outcomes in %s: %w", path, err)
	}
	return specs, nil
}

// writeResults records specs, one a line.
func writeResults(path string, specs []spec) error {
	lines := make([]string, 0, len(specs))
	for _, s := range specs {
		line, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("record the outcomes: %w", err)
		}
		lines = append(lines, string(line))
	}
	if err := os.WriteFile(path, []byte("[\n"+strings.Join(lines, ",\n")+"\n]\n"), 0o644); err != nil {
		return fmt.Errorf("record the outcomes: %w", err)
	}
	return nil
}

// merge returns all specs of a report. Those that it has no outcome of keep the recorded one.
func merge(recorded, reported []spec) []spec {
	byName := make(map[string]spec, len(recorded))
	for _, s := range recorded {
		byName[s.Name] = s
	}
	merged := make([]spec, 0, len(reported))
	for _, s := range reported {
		if old := byName[s.Name]; s.Outcome == "" {
			s.Outcome, s.Seconds, s.Commit, s.Message = old.Outcome, old.Seconds, old.Commit, old.Message
		}
		merged = append(merged, s)
	}
	return merged
}

// regressions returns the specs of a run that do not pass and did so before.
func regressions(recorded, ran []spec) []spec {
	before := map[string]bool{}
	for _, s := range recorded {
		before[s.Name] = s.Outcome == passed
	}
	var out []spec
	for _, s := range ran {
		if before[s.Name] && s.Outcome != "" && s.Outcome != passed {
			out = append(out, s)
		}
	}
	return out
}

// without returns how many of the chosen specs did not run.
func without(chosen, ran []spec) int {
	has := map[string]bool{}
	for _, s := range ran {
		has[s.Name] = true
	}
	n := 0
	for _, s := range chosen {
		if !has[s.Name] {
			n++
		}
	}
	return n
}
