package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// printCalls prints virtflow's own requests about objects of a namespace, by the API server's audit log: watches, lists and events apart.
func printCalls(what, namespace string, from, to time.Time, machines int) {
	log := os.Getenv("VIRTFLOW_AUDIT_LOG")
	if log == "" {
		fmt.Println("scale: VIRTFLOW_AUDIT_LOG is not set: requests were not counted")
		return
	}
	// The API server begins a new file when one is full; older ones have a time in their names.
	files, _ := filepath.Glob(strings.TrimSuffix(log, ".log") + "*.log") //nolint:errcheck // the pattern is well-formed
	sums, events, total := map[string]int{}, 0, 0
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		s := bufio.NewScanner(f)
		s.Buffer(make([]byte, 1<<20), 8<<20)
		for s.Scan() {
			var c struct {
				Verb, UserAgent, Stage string
				Received               time.Time                                         `json:"requestReceivedTimestamp"`
				Object                 struct{ Resource, Subresource, Namespace string } `json:"objectRef"`
			}
			if json.Unmarshal(s.Bytes(), &c) != nil || c.Stage != "ResponseComplete" || c.Object.Namespace != namespace ||
				!strings.HasPrefix(c.UserAgent, "virtflow-") || c.Verb == "watch" || c.Verb == "list" || c.Received.Before(from) || c.Received.After(to) {
				continue
			}
			if c.Object.Resource == "events" {
				events++
				continue
			}
			total++
			sums[strings.TrimSuffix(fmt.Sprintf("%s %s/%s", c.Verb, c.Object.Resource, c.Object.Subresource), "/")]++
		}
		_ = f.Close()
	}
	fmt.Printf("scale: %s: %.2f own requests for each (%d), %.2f events\n", what, float64(total)/float64(machines), total, float64(events)/float64(machines))
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		fmt.Printf("scale:   %6d  %s\n", sums[k], k)
	}
}
