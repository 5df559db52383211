package fakes

import (
	"context"

	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/workflows/contract"
)

// OperateDomain is the activity on the node's queue.
func (c *Cluster) OperateDomain(_ context.Context, in contract.OperateDomainInput) (r contract.OperateDomainResult, err error) {
	err = c.do(contract.ActivityOperateDomain, func() error {
		if c.Pod == nil || c.Pod.UID != in.Pod.UID || c.Domain == nil {
			return temporal.NewNonRetryableApplicationError("the guest does not run", contract.RefusedFailed, nil)
		}
		c.Operations = append(c.Operations, in.Operation)
		d := *c.Domain
		switch in.Operation {
		case contract.OperationPause:
			d.State = contract.DomainPaused
		case contract.OperationUnpause:
			d.State = contract.DomainRunning
		case contract.OperationFreeze:
			d.Frozen = true
		case contract.OperationUnfreeze:
			d.Frozen = false
		default:
		}
		if d.State != c.Domain.State || d.Frozen != c.Domain.Frozen {
			d.Sequence++
			c.Domain = &d
			c.pending = append(c.pending, change{contract.SignalObserveDomain, d})
		}
		r.Domain = d
		return nil
	})
	return r, err
}
