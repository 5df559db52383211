package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
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

// TestEvictions: a refused eviction and a pod that is gone are expected, a granted one is counted, and target pods and
// those that do not run are unchanged.
func TestEvictions(t *testing.T) {
	pod := func(name string, phase corev1.PodPhase, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels},
			Status: corev1.PodStatus{Phase: phase}}
	}
	clients := fake.NewClientset(pod("refused", corev1.PodRunning, nil), pod("gone", corev1.PodRunning, nil),
		pod("granted", corev1.PodRunning, nil), pod("ended", corev1.PodFailed, nil),
		pod("target", corev1.PodRunning, map[string]string{contract.LabelMigration: "move"}))
	answers := map[string]error{"refused": apierrors.NewTooManyRequests("it migrates", 5),
		"gone": apierrors.NewNotFound(corev1.Resource("pods"), "gone"), "granted": nil}
	var asked []string
	clients.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		name := a.(k8stesting.CreateAction).GetObject().(*policyv1.Eviction).Name
		asked = append(asked, name)
		return true, nil, answers[name]
	})
	s := &stage{run: &run{kubernetes: clients}, namespace: "ns"}
	evicted, err := s.evictAll(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, evicted)
	require.ElementsMatch(t, []string{"refused", "gone", "granted"}, asked)
	answers["refused"] = apierrors.NewForbidden(corev1.Resource("pods"), "refused", nil)
	_, err = s.evictAll(t.Context())
	require.ErrorContains(t, err, "forbidden")
}
