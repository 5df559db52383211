package node

import (
	"context"
	"fmt"
	"time"

	activities "github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

// Operate reaches the launcher of a pod and has it do one thing to its running domain. Unlike a start it does not wait
// for a launcher that does not answer yet: it then fails with a NotBegunError, and so it does above the quota.
func (s *Starter) Operate(ctx context.Context, in contract.OperateDomainInput) (contract.DomainObservation, error) {
	var none contract.DomainObservation
	if !launchers.IsValidPodUID(in.Pod.UID) {
		return none, &activities.RefusedError{Message: fmt.Sprintf("%.64q is not the UID of a pod", in.Pod.UID)}
	}
	leave, err := s.operations.acquire(in.VMI, in.Pod)
	if err != nil {
		return none, &activities.NotBegunError{Err: err}
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, contract.OperationOnNode)
	defer cancel()
	begun := time.Now()
	launcher, err := s.Dialer.Connect(ctx, in.Pod.UID)
	if err != nil {
		return none, &activities.NotBegunError{Err: err}
	}
	defer launcher.Close()
	domain, err := launcher.Operate(ctx, in)
	log := s.Log.With().Str("namespace", in.VMI.Namespace).Str("name", in.VMI.Name).Str("uid", in.VMI.UID).
		Str("pod_uid", in.Pod.UID).Str("operation", string(in.Operation)).Dur("took", time.Since(begun)).Logger()
	if err != nil {
		log.Warn().Err(err).Msg("failed to operate on domain")
		return none, refusal(err)
	}
	log.Info().Msg("operated on domain")
	return domain, nil
}
