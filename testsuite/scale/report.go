package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// report is what a run has measured. Durations are in nanoseconds.
type report struct {
	Steps []reported `json:"steps"`
}

type reported struct {
	What string `json:"what"`
	step
}

func (r report) write(file string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("writing down what was measured: %w", err)
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
		return fmt.Errorf("writing down what was measured: %w", err)
	}
	return nil
}
