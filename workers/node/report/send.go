package report

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/rs/zerolog"
	"go.temporal.io/api/serviceerror"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/virtflow/virtflow/contract"
)

const signalTimeout = 10 * time.Second

// retry is the back-off. The first report often comes before crdwatch has started the node's entity, and no VM is
// placed on the node before it has arrived.
var retry = wait.Backoff{
	Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: math.MaxInt32, Cap: 3 * time.Second,
}

// Signaler sends signals; it is a part of Temporal's client.
type Signaler interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
}

// Send delivers a report to the node's entity and retries until it has arrived or ctx ends. It starts no workflow:
// crdwatch does, once there is such a node.
func Send(ctx context.Context, temporal Signaler, node string, r contract.NodeReport, log zerolog.Logger) {
	id := contract.NodeID(node)
	log = log.With().Str("workflow_id", id).Logger()
	_ = retry.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		try, cancel := context.WithTimeout(ctx, signalTimeout)
		defer cancel()
		err := temporal.SignalWorkflow(try, id, "", contract.SignalReportNode, r)
		if err == nil {
			log.Info().Bool("kvm", r.KVM).Str("cpu", r.CPUModel).Msg("reported the node")
			return true, nil
		}
		level := zerolog.WarnLevel
		if ctx.Err() != nil || errors.As(err, new(*serviceerror.NotFound)) {
			level = zerolog.DebugLevel
		}
		log.WithLevel(level).Err(err).Msg("failed to report the node; it will be retried")
		return false, nil
	})
}
