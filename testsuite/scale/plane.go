package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/histories"
)

// controlPlane is the control plane under load: virtflow, or KubeVirt's own controllers.
type controlPlane interface {
	// programs returns the programs of the control plane whose resource usage is measured.
	programs() []string
	// isOwn reports whether a request with this user agent is the control plane's.
	isOwn(userAgent string) bool
	// serve simulates the control plane's program on a node until the run's life ends.
	serve(ctx, life context.Context, node string) error
	// hasEnded reports whether the guest of a pod that is being deleted has ended. If not, it calls again once it has.
	hasEnded(pod *corev1.Pod, again func()) bool
	// histories counts what Temporal has recorded since then about some VMs of a stage; nil: there is no Temporal.
	histories(ctx context.Context, s *stage, since time.Time) (*sampled, error)
	// watch observes a property that must hold during the run; the returned function adds its finding.
	watch(ctx, life context.Context) (kept func(), err error)
	// started and done add the findings of a completed step under load.
	started(ctx context.Context, s *stage, rest atRest, capacity, load step) error
	done(ctx context.Context, s *stage, c comparison) error
}

// comparison compares a step under load with the same step at rest.
type comparison struct {
	requests, of string // names in the table: of the requests, and of the events
	rest, load   step
	events       map[string]int // of each VM at rest, after the step
}

// sampled counts what Temporal has recorded about some machines.
type sampled struct {
	Machines int `json:"machines"`
	histories.Count
}

// each returns the average for a machine.
func (s sampled) each(count int) float64 { return float64(count) / float64(s.Machines) }
