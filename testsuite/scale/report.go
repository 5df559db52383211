package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// report has the measurements of a run. Durations are in nanoseconds.
type report struct {
	Began       time.Time    `json:"began"`
	Options     options      `json:"options"`
	Steps       []reported   `json:"steps"`
	Idle        *idle        `json:"idle,omitempty"`
	Restarts    []restart    `json:"restarts,omitempty"`
	FailedMoves *failedMoves `json:"failedMoves,omitempty"`
	Findings    []finding    `json:"findings"`
}

// reported is a step of one of the stages rest, capacity and load.
type reported struct {
	Stage string `json:"stage"`
	What  string `json:"what"`
	step
}

// record adds the results of a step, and prints them.
func (r *run) record(stage, what string, s step) {
	r.report.Steps = append(r.report.Steps, reported{Stage: stage, What: what, step: s})
	printStep(os.Stdout, stage+", "+what, s)
}

func (r report) write(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", " ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
