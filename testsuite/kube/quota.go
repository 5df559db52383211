package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// admitQuota refuses a pod that exceeds a ResourceQuota of its namespace. Other resources are not counted.
func (s *Server) admitQuota(st *store, q query, o *object) error {
	if q.kind.Resource != "pods" {
		return nil
	}
	used := 0
	for _, p := range st.sorted(q.kind, q.namespace) {
		if phase := p.field("status.phase"); phase != string(corev1.PodSucceeded) && phase != string(corev1.PodFailed) {
			used++
		}
	}
	for _, quota := range st.sorted(st.kinds["resourcequotas"], q.namespace) {
		var typed corev1.ResourceQuota
		quota.into(&typed)
		limit, limited := typed.Spec.Hard[corev1.ResourcePods]
		if limited && int64(used) >= limit.Value() {
			return apierrors.NewForbidden(q.kind.GroupResource(), o.meta.Name, fmt.Errorf(
				"exceeded quota: %s, requested: pods=1, used: pods=%d, limited: pods=%s", quota.meta.Name, used, &limit))
		}
	}
	return nil
}
