package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/contract"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// TestPodWarning: of a pod that has a node, and neither its volumes nor its network, the kubelet's last words count.
func TestPodWarning(t *testing.T) {
	type event struct{ kind, reason, message string }
	absent := event{"Warning", "FailedMount", `MountVolume.SetUp failed for volume "app": secret "app" not found`}
	for name, c := range map[string]struct {
		node, ready string
		events      []event // oldest first
		want        event
	}{
		"no event":     {"n", "", nil, event{}},
		"one":          {"n", "", []event{absent}, absent},
		"not prepared": {"n", "False", []event{absent}, absent},
		"the last":     {"n", "", []event{{"Warning", "FailedAttachVolume", "busy"}, absent}, absent},
		"the one that says what": {"n", "", []event{absent,
			{"Warning", "FailedMount", "Unable to attach or mount volumes: unmounted volumes=[app]"}}, absent},
		"only what sums it up": {"n", "", []event{{"Warning", "FailedMount", "Unable to attach or mount volumes: x"}},
			event{"Warning", "FailedMount", "Unable to attach or mount volumes: x"}},
		"before it had a node":  {"n", "", []event{{"Warning", "FailedScheduling", "0/1 nodes"}}, event{}},
		"no warning":            {"n", "", []event{{"Normal", "Pulling", "pulling"}}, event{}},
		"images are pulled":     {"n", "True", []event{absent}, event{}},
		"it has no node so far": {"", "", []event{absent}, event{}},
		"long": {"n", "", []event{{"Warning", "FailedMount", strings.Repeat("x", 4096)}},
			event{"Warning", "FailedMount", strings.Repeat("x", 512)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if w.fake == nil {
				t.Skip("plays the kubelet")
			}
			pod, err := fakekube.Put(w.fake, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "p"},
				Spec: corev1.PodSpec{NodeName: c.node,
					Containers: []corev1.Container{{Name: "compute", Image: "i"}}},
			})
			require.NoError(t, err)
			if c.ready != "" {
				_, err = fakekube.Edit(w.fake, w.ns, "p", "status", func(p *corev1.Pod) {
					p.Status.Conditions = []corev1.PodCondition{
						{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionStatus(c.ready)}}
				})
				require.NoError(t, err)
			}
			for i, e := range c.events {
				_, err := fakekube.Put(w.fake, &corev1.Event{
					ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: fmt.Sprint("e", i)}, Type: e.kind,
					Reason: e.reason, Message: e.message,
					InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: w.ns, Name: "p", UID: pod.UID},
					LastTimestamp:  metav1.NewTime(time.Unix(1000+int64(i), 0)),
				})
				require.NoError(t, err)
			}
			w.fake.Calls()
			in := contract.ReadPodWarningInput{Pod: contract.Object{Namespace: w.ns, Name: "p", UID: string(pod.UID)}}
			out, err := w.ReadPodWarning(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, contract.ReadPodWarningResult{Reason: c.want.reason, Message: c.want.message}, out)
			if c.node == "" || c.ready == "True" {
				w.calls(t, "GET pods")
			} else {
				w.calls(t, "GET pods", "GET events")
			}
			in.Pod.UID = "another"
			out, err = w.ReadPodWarning(t.Context(), in)
			require.NoError(t, err)
			require.Zero(t, out)
		})
	}
}
