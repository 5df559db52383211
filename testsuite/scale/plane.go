package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/histories"
)

// controlPlane is what is loaded: virtflow, or KubeVirt's own controllers.
type controlPlane interface {
	// programs are those of the control plane whose use of the machine is measured.
	programs() []string
	// asked says whether a request to the API server with this user agent is its own.
	asked(userAgent string) bool
	// serve has a simulated node answer as its program on a node does, until the run's life ends.
	serve(ctx, life context.Context, node string) error
	// ended says whether the guest of a pod that is being deleted has ended. If not, it calls again once it has.
	ended(pod *corev1.Pod, again func()) bool
	// histories is what Temporal has recorded since then about some VMs of a stage; nil where there is no Temporal.
	histories(ctx context.Context, s *stage, since time.Time) (*sampled, error)
	// watch observes what it promises to keep up meanwhile; the function it returns finds whether it has.
	watch(ctx, life context.Context) (kept func(), err error)
	// started and done find what it promises of a step under load, which was finished.
	started(ctx context.Context, s *stage, rest atRest, capacity, load step) error
	done(ctx context.Context, s *stage, c comparison) error
}

// comparison is of a step under load with the same step at rest.
type comparison struct {
	requests, of string // names of what is compared: the requests, and what the events are of
	rest, load   step
	events       map[string]int // about each VM at rest, after the step
}

// sampled is what Temporal has recorded about some machines.
type sampled struct {
	Machines int `json:"machines"`
	histories.Count
}

// each is a machine's part of what was counted.
func (s sampled) each(count int) float64 { return float64(count) / float64(s.Machines) }
