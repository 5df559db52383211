package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/workflows/contract"
)

// Reasons of the condition Available of the KubeVirt object.
const (
	ReasonTemporalReachable    = "TemporalReachable"
	ReasonTemporalNotReachable = "TemporalNotReachable"
)

const (
	// conditionHold is how long the word of a worker that does not reach Temporal stands against one that does.
	conditionHold = 2 * time.Minute
	// maxConditionMessage bounds what the status shows of an error.
	maxConditionMessage = 512
	writeTime           = 5 * time.Second
)

// availability shows in the KubeVirt object whether virtflow can work: by its condition Available. Every control worker
// writes it, but only what changes something: that Temporal is not reached when that begins, that it is reached where
// the condition says otherwise.
type availability struct {
	client  *kube.Client
	current func() *kubevirt.KubeVirt // as last seen; nil: there is none
	log     zerolog.Logger
	now     func() time.Time
	failed  bool // this worker has said that Temporal is not reachable
}

// report brings the condition up to date. A write that fails is made up for at the next report.
func (a *availability) report(ctx context.Context, problem error) {
	kv := a.current()
	if kv == nil || ctx.Err() != nil {
		return
	}
	c, write := nextCondition(kv.Status.Conditions, problem, a.failed, a.now())
	if write {
		ctx, cancel := context.WithTimeout(ctx, writeTime)
		defer cancel()
		err := a.write(ctx, kv, c)
		if apierrors.IsConflict(err) {
			return // another worker was first
		}
		if err != nil {
			a.log.Warn().Err(err).Msg("the KubeVirt object does not show whether Temporal is reachable")
			return
		}
	}
	a.failed = problem != nil
}

// nextCondition decides what the condition is to say, and whether it has to be written. alreadyFailed: this worker has
// said before that Temporal is not reachable; it does not say so twice, so that two workers that disagree do not write
// against each other for ever.
func nextCondition(
	conditions []kubevirt.KubeVirtCondition, problem error, alreadyFailed bool, now time.Time,
) (kubevirt.KubeVirtCondition, bool) {
	c := kubevirt.KubeVirtCondition{
		Type: kubevirt.KubeVirtConditionAvailable, Status: corev1.ConditionTrue, Reason: ReasonTemporalReachable,
		Message:            "Control workers reach Temporal, and its namespace is registered.",
		LastTransitionTime: metav1.NewTime(now), LastProbeTime: metav1.NewTime(now),
	}
	if problem != nil {
		c.Status, c.Reason = corev1.ConditionFalse, ReasonTemporalNotReachable
		c.Message = contract.Cut("Guests run on, but nothing is started, stopped or repaired: "+problem.Error(),
			maxConditionMessage)
	}
	i := slices.IndexFunc(conditions, func(o kubevirt.KubeVirtCondition) bool { return o.Type == c.Type })
	switch {
	case i < 0:
		return c, true
	case conditions[i].Status == c.Status:
		return c, false
	case problem != nil:
		return c, !alreadyFailed
	default:
		return c, alreadyFailed || now.Sub(conditions[i].LastTransitionTime.Time) >= conditionHold
	}
}

// write replaces the condition, if the object is still the one that was seen.
func (a *availability) write(ctx context.Context, kv *kubevirt.KubeVirt, c kubevirt.KubeVirtCondition) error {
	all := slices.DeleteFunc(slices.Clone(kv.Status.Conditions), func(o kubevirt.KubeVirtCondition) bool {
		return o.Type == c.Type
	})
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": kv.UID, "resourceVersion": kv.ResourceVersion},
		"status":   map[string]any{"conditions": append(all, c)},
	})
	if err != nil {
		return fmt.Errorf("writing the condition of %s/%s: %w", kv.Namespace, kv.Name, err)
	}
	_, err = a.client.KubeVirts(kv.Namespace).
		Patch(ctx, kv.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patching the status of the KubeVirt object %s/%s: %w", kv.Namespace, kv.Name, err)
	}
	return nil
}
