package kube_test

import (
	"testing"

	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/testsuite/kube/conformance"
)

// TestConformance: the server in memory passes what the end-to-end tests ask of a real one.
func TestConformance(t *testing.T) {
	conformance.Run(t, kube.New(kube.Options{CustomGroup: conformance.Group}).Config(), "fake")
}
