package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/kube"
)

// Reasons of the condition Available of the KubeVirt object.
const (
	ReasonTemporalReachable    = "TemporalReachable"
	ReasonTemporalNotReachable = "TemporalNotReachable"
)

const (
	// unreachableFor is how long the condition of a worker that does not reach Temporal stands against one that does.
	unreachableFor = 2 * time.Minute
	// maxConditionMessage limits the part of an error that the status has.
	maxConditionMessage = 512
	// reportedTime is how long a worker lets another worker's condition FieldsWithoutEffect stand that differs from its
	// own.
	reportedTime = 10 * time.Minute
	writeTime    = 5 * time.Second
)

// availability shows in the KubeVirt object whether virtflow can work, in the fields of the status that KubeVirt's
// operator writes, and which fields of its spec have no effect. Every control worker writes it, but only changes: that
// Temporal is unreachable when that begins, and that it is reachable if the condition Available has another status.
type availability struct {
	client  *kube.Client
	current func() *kubevirt.KubeVirt // as last seen; nil: there is none
	log     zerolog.Logger
	now     func() time.Time
	failed  bool // this worker has reported that Temporal is not reachable
	// withoutEffect returns the paths of the fields that are set and have no effect; nil: they are not reported.
	withoutEffect func(*kubevirt.KubeVirt) ([]string, error)
	// reported is the object for which this worker has reported them. It does that once for each generation, and again
	// once another worker's differing condition is reportedTime old: workers of two releases overwrite each other's
	// condition no more often.
	reported reportedFor
}

// reportedFor identifies a generation of the KubeVirt object.
type reportedFor struct {
	uid        types.UID
	generation int64
}

// report updates the status. The next report retries a failed write.
func (a *availability) report(ctx context.Context, problem error) {
	kv := a.current()
	if kv == nil || ctx.Err() != nil {
		return
	}
	status := NextStatus(kv, problem, a.failed, a.now())
	status.Conditions = a.reportFields(kv, status.Conditions)
	if !equality.Semantic.DeepEqual(status, kv.Status) {
		ctx, cancel := context.WithTimeout(ctx, writeTime)
		defer cancel()
		err := a.write(ctx, kv, status)
		if apierrors.IsConflict(err) {
			return // another worker was faster
		}
		if err != nil {
			a.log.Warn().Err(err).Msg("failed to write the status of the KubeVirt object")
			return
		}
	}
	a.failed = problem != nil
	a.reported = reportedFor{kv.UID, kv.Generation}
}

// reportFields returns the conditions with the current condition FieldsWithoutEffect, if it has to be reported.
func (a *availability) reportFields(
	kv *kubevirt.KubeVirt, conditions []kubevirt.KubeVirtCondition,
) []kubevirt.KubeVirtCondition {
	if a.withoutEffect == nil {
		return conditions
	}
	now := a.now()
	i := indexOf(conditions, ConditionFieldsWithoutEffect)
	if a.reported == (reportedFor{kv.UID, kv.Generation}) && i >= 0 &&
		now.Sub(conditions[i].LastProbeTime.Time) < reportedTime {
		return conditions
	}
	paths, err := a.withoutEffect(kv)
	if err != nil {
		a.log.Warn().Err(err).Msg("failed to list the fields of the KubeVirt object without effect")
		return conditions
	}
	return withFields(conditions, fieldsCondition(paths, now))
}

// NextStatus returns the next status of the KubeVirt object. A problem is why Temporal is not reachable, and
// alreadyFailed means that this worker has reported one. No operator deploys virtflow, so the phase is always Deployed,
// and the object is degraded while it is not available.
func NextStatus(kv *kubevirt.KubeVirt, problem error, alreadyFailed bool, now time.Time) kubevirt.KubeVirtStatus {
	s := *kv.Status.DeepCopy()
	s.Phase, s.ObservedGeneration = kubevirt.KubeVirtPhaseDeployed, &kv.Generation
	s.OperatorVersion, s.TargetKubeVirtVersion = contract.KubeVirtVersion, contract.KubeVirtVersion
	s.ObservedKubeVirtVersion = contract.KubeVirtVersion
	s.DefaultArchitecture = cmp.Or(s.DefaultArchitecture, runtime.GOARCH)
	available, write := nextCondition(s.Conditions, problem, alreadyFailed, now)
	if i := indexOf(s.Conditions, available.Type); !write {
		available = s.Conditions[i]
	}
	degraded := available
	degraded.Type, degraded.Status = kubevirt.KubeVirtConditionDegraded, corev1.ConditionTrue
	if available.Status == corev1.ConditionTrue {
		degraded.Status = corev1.ConditionFalse
	}
	for _, c := range []kubevirt.KubeVirtCondition{
		available, degraded,
		{Type: kubevirt.KubeVirtConditionCreated, Status: corev1.ConditionTrue, Reason: "AllResourcesCreated",
			Message: "All resources were created."},
		{Type: kubevirt.KubeVirtConditionProgressing, Status: corev1.ConditionFalse, Reason: "DeployedByManifests",
			Message: "virtflow is deployed by its manifests, which no operator changes."},
	} {
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime, c.LastProbeTime = metav1.NewTime(now), metav1.NewTime(now)
		}
		switch i := indexOf(s.Conditions, c.Type); {
		case i < 0:
			s.Conditions = append(s.Conditions, c)
		case s.Conditions[i].Status != c.Status:
			s.Conditions[i] = c
		}
	}
	return s
}

// indexOf returns the index of a type's condition; -1 if there is none.
func indexOf(conditions []kubevirt.KubeVirtCondition, of kubevirt.KubeVirtConditionType) int {
	return slices.IndexFunc(conditions, func(c kubevirt.KubeVirtCondition) bool { return c.Type == of })
}

// nextCondition returns the next condition, and whether it has to be written. alreadyFailed: this worker has already
// reported that Temporal is not reachable; it does not report that twice, so that two workers that disagree do not
// overwrite each other's condition for ever.
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
	i := indexOf(conditions, c.Type)
	switch {
	case i < 0:
		return c, true
	case conditions[i].Status == c.Status:
		return c, false
	case problem != nil:
		return c, !alreadyFailed
	default:
		return c, alreadyFailed || now.Sub(conditions[i].LastTransitionTime.Time) >= unreachableFor
	}
}

// write replaces the fields of the status that virtflow keeps there, if the object has not changed since it was seen.
func (a *availability) write(ctx context.Context, kv *kubevirt.KubeVirt, s kubevirt.KubeVirtStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": kv.UID, "resourceVersion": kv.ResourceVersion},
		"status": map[string]any{
			"phase": s.Phase, "conditions": s.Conditions, "observedGeneration": s.ObservedGeneration,
			"operatorVersion": s.OperatorVersion, "targetKubeVirtVersion": s.TargetKubeVirtVersion,
			"observedKubeVirtVersion": s.ObservedKubeVirtVersion, "defaultArchitecture": s.DefaultArchitecture,
		},
	})
	if err != nil {
		return fmt.Errorf("encoding the status of %s/%s: %w", kv.Namespace, kv.Name, err)
	}
	_, err = a.client.KubeVirts(kv.Namespace).
		Patch(ctx, kv.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patching the status of the KubeVirt object %s/%s: %w", kv.Namespace, kv.Name, err)
	}
	return nil
}
