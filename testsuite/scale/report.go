package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// report is what a run has measured. Durations are in nanoseconds.
type report struct {
	Began    time.Time  `json:"began"`
	Options  options    `json:"options"`
	Steps    []reported `json:"steps"`
	Idle     *idle      `json:"idle,omitempty"`
	Restarts []restart  `json:"restarts,omitempty"`
	Findings []finding  `json:"findings"`
}

// reported is a step of one of the stages rest, capacity and load.
type reported struct {
	Stage string `json:"stage"`
	What  string `json:"what"`
	step
}

// record keeps what came of a step, and prints it.
func (r *run) record(stage, what string, s step) {
	r.report.Steps = append(r.report.Steps, reported{Stage: stage, What: what, step: s})
	printStep(os.Stdout, stage+", "+what, s)
}

func (r report) write(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", " ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("writing down what was measured: %w", err)
	}
	return nil
}
