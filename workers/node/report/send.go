package report

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
	"go.temporal.io/api/serviceerror"

	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	signalTimeout = 10 * time.Second
	// shortest and longest wait between two tries. The first report often comes before crdwatch has started the node's entity, and
	// no VM is placed on the node before it has arrived.
	shortest, longest = 200 * time.Millisecond, 3 * time.Second
)

// Signaler sends signals; it is a part of Temporal's client.
type Signaler interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
}

// Send delivers a report to the node's entity and tries until it has arrived or ctx ends. It starts no workflow: whoever watches
// Kubernetes does, once there is such a node.
func Send(ctx context.Context, temporal Signaler, node string, r contract.NodeReport, log zerolog.Logger) {
	id := contract.NodeID(node)
	log = log.With().Str("workflow_id", id).Logger()
	for wait := shortest; ; wait = min(2*wait, longest) {
		try, cancel := context.WithTimeout(ctx, signalTimeout)
		err := temporal.SignalWorkflow(try, id, "", contract.SignalReportNode, r)
		cancel()
		if err == nil {
			log.Info().Bool("kvm", r.KVM).Str("cpu", r.CPUModel).Msg("node reported")
			return
		}
		if ctx.Err() != nil {
			return
		}
		e := log.Warn()
		if errors.As(err, new(*serviceerror.NotFound)) {
			e = log.Debug()
		}
		e.Err(err).Dur("again_in", wait).Msg("reporting the node")
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
