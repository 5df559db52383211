package admission

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// Answer is a webhook's response.
type Answer struct {
	Allowed  bool                 `json:"allowed"`
	Code     int32                `json:"code,omitempty"`
	Reason   string               `json:"reason,omitempty"`
	Message  string               `json:"message,omitempty"`
	Causes   []metav1.StatusCause `json:"causes,omitempty"`
	Warnings []string             `json:"warnings,omitempty"`
	Patch    json.RawMessage      `json:"patch,omitempty"`
	// Panic is KubeVirt's panic, where it gave no answer.
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
	// Nondeterministic are paths of the mutated object with random values or times.
	Nondeterministic []string        `json:"nondeterministic"`
	Request          json.RawMessage `json:"request"` // an AdmissionReview
	Response         *Answer         `json:"response"`
	// Config is a merge patch to the configuration with which Response was recorded.
	Config json.RawMessage `json:"config"`
	// DefaultResponse is the answer of a cluster with default configuration and no objects, if Response is that of
	// another cluster.
	DefaultResponse *Answer `json:"default_response"`
}

// Want returns the answer of a new cluster.
func (r *Record) Want() *Answer {
	if r.DefaultResponse != nil {
		return r.DefaultResponse
	}
	return r.Response
}

// Read reads a file of records.
func Read(name string) ([]*Record, error) { return suite.ReadRecorded[Record](name) }
