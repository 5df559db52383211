package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	activities "github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workflows/contract"
)

// Operate reaches the launcher of a pod and has it do one thing to its running domain. Unlike a start it does not wait
// for a launcher that is not there yet: that, and that there is no place, is a NotBegunError.
func (s *Starter) Operate(ctx context.Context, in contract.OperateDomainInput) (contract.DomainObservation, error) {
	var none contract.DomainObservation
	if !launchers.ValidPodUID(in.Pod.UID) {
		return none, &activities.RefusedError{Message: fmt.Sprintf("%.64q is not the UID of a pod", in.Pod.UID)}
	}
	leave, err := s.operations.take(in.VMI, in.Pod)
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
	s.Log.Info().Err(err).Str("namespace", in.VMI.Namespace).Str("name", in.VMI.Name).Str("uid", in.VMI.UID).
		Str("pod_uid", in.Pod.UID).
		Str("operation", string(in.Operation)).Dur("took", time.Since(begun)).Msg("operation on the domain")
	var refused *launchers.RefusedError
	if errors.As(err, &refused) {
		return none, &activities.RefusedError{Message: refused.Message}
	}
	return domain, err
}
