package admission

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Answer is what a webhook says.
type Answer struct {
	Allowed  bool                 `json:"allowed"`
	Code     int32                `json:"code,omitempty"`
	Reason   string               `json:"reason,omitempty"`
	Message  string               `json:"message,omitempty"`
	Causes   []metav1.StatusCause `json:"causes,omitempty"`
	Warnings []string             `json:"warnings,omitempty"`
	Patch    json.RawMessage      `json:"patch,omitempty"`
	// Panic says that KubeVirt gave no answer, since it broke.
	Panic string `json:"panic,omitempty"`
}

// Record is one case.
type Record struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Webhook   string `json:"webhook"` // mutating or validating
	Path      string `json:"path"`
	Resource  string `json:"resource"`
	Operation string `json:"operation"`
	// Nondeterministic are paths of the mutated object that are random, or times.
	Nondeterministic []string        `json:"nondeterministic"`
	Request          json.RawMessage `json:"request"` // an AdmissionReview
	Response         *Answer         `json:"response"`
	// Config is a merge patch to the configuration that Response was given with.
	Config json.RawMessage `json:"config"`
	// DefaultResponse is the answer of a cluster with default configuration and no objects, where Response is that of
	// another one.
	DefaultResponse *Answer `json:"default_response"`
}

// Want is the answer of a new cluster.
func (r *Record) Want() *Answer {
	if r.DefaultResponse != nil {
		return r.DefaultResponse
	}
	return r.Response
}

// Read reads a file of records.
func Read(name string) ([]*Record, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening the recorded cases: %w", err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("unpacking the recorded cases: %w", err)
		}
	}
	var out []*Record
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			r := &Record{}
			if err := json.Unmarshal(line, r); err != nil {
				return nil, fmt.Errorf("reading recorded case %d: %w", len(out)+1, err)
			}
			out = append(out, r)
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the recorded cases: %w", err)
		}
	}
}
