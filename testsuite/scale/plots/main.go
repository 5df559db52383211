// Command plots draws what `make scale` has measured (SCALE='--out FILE') as SVG images.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report is what the command scale writes; durations are in nanoseconds.
type report struct {
	Steps []step `json:"steps"`
}

type step struct {
	What  string          `json:"what"`
	Took  []time.Duration `json:"took"`
	Done  []time.Duration `json:"done"`
	Calls struct {
		By map[string]int `json:"by"`
	} `json:"calls"`
	Used map[string]struct {
		CPU float64 `json:"cpuSeconds"`
	} `json:"used"`
}

func main() {
	in := flag.String("in", "", "what the command scale has written")
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
	load := slices.DeleteFunc(slices.Clone(r.Steps), func(s step) bool { return !s.underLoad() })
	if len(load) == 0 {
		return fmt.Errorf("-in: %s has no step under load", in)
	}
	for name, draw := range map[string]func([]step) (*picture, error){
		"scale-progress.svg":  progress,
		"scale-requests.svg":  requests,
		"scale-processes.svg": processes,
	} {
		p, err := draw(load)
		if err == nil {
			err = p.write(filepath.Join(out, name))
		}
		if err != nil {
			return fmt.Errorf("drawing %s: %w", name, err)
		}
	}
	return nil
}

// underLoad says whether a step is one of many VMs at once.
func (s step) underLoad() bool {
	return !strings.HasPrefix(s.What, "at rest") && !strings.Contains(s.What, "in hand") && len(s.Done) > 0
}
