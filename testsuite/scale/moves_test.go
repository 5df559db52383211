package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// TestTargetPodsFail: with --failing-moves a target pod fails and is counted once; other pods run, and without the flag
// target pods do, too.
func TestTargetPodsFail(t *testing.T) {
	pod := func(name, vmi string, isTarget bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid"),
			Labels: map[string]string{kubevirt.CreatedByLabel: vmi}}}
		if isTarget {
			p.Labels[contract.LabelMigration] = "move"
		}
		return p
	}
	phase := func(r *run, p *corev1.Pod) corev1.PodPhase {
		r.kubernetes = fake.NewClientset(p)
		require.NoError(t, r.sync(t.Context(), p, func() {}))
		require.NoError(t, r.sync(t.Context(), p, func() {}))
		now, err := r.kubernetes.CoreV1().Pods("ns").Get(t.Context(), p.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return now.Status.Phase
	}
	r := &run{targets: &targets{}}
	require.Equal(t, corev1.PodRunning, phase(r, pod("web", "one", false)))
	require.Equal(t, corev1.PodFailed, phase(r, pod("web-target", "one", true)))
	require.Equal(t, corev1.PodFailed, phase(r, pod("web-next", "one", true)))
	require.Equal(t, corev1.PodFailed, phase(r, pod("db-target", "two", true)))
	all, most := r.targets.count()
	require.Equal(t, []int{3, 2}, []int{all, most})
	require.Equal(t, corev1.PodRunning, phase(&run{}, pod("web-target", "one", true)))
}
