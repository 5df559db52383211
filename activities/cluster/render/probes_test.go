package render

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/settings"
)

func TestProbe(t *testing.T) {
	exec := func(c ...string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: c}}}
	}
	ping := exec("/usr/bin/launcher", "probe", "--timeout-seconds", "5", "--guest-agent-ping")
	ping.InitialDelaySeconds, ping.TimeoutSeconds, ping.PeriodSeconds = 30, 6, 3
	ping.SuccessThreshold, ping.FailureThreshold = 2, 4
	command := exec("/usr/bin/launcher", "probe", "--timeout-seconds", "1", "--command", "cat", "--", "/tmp/healthy",
		"-v")
	command.InitialDelaySeconds, command.TimeoutSeconds = 10, 2
	http := &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}
	for name, c := range map[string]struct {
		in   *kubevirt.Probe
		want *corev1.Probe
	}{
		"none":    {nil, nil},
		"nothing": {&kubevirt.Probe{}, nil},
		"http": {&kubevirt.Probe{Handler: kubevirt.Handler{HTTPGet: http}, TimeoutSeconds: 3},
			&corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: http}, InitialDelaySeconds: 10,
				TimeoutSeconds: 3}},
		"ping": {&kubevirt.Probe{Handler: kubevirt.Handler{GuestAgentPing: &kubevirt.GuestAgentPing{}},
			InitialDelaySeconds: 20, TimeoutSeconds: 5, PeriodSeconds: 3, SuccessThreshold: 2, FailureThreshold: 4},
			ping},
		"command": {&kubevirt.Probe{
			Handler: kubevirt.Handler{Exec: &corev1.ExecAction{Command: []string{"cat", "/tmp/healthy", "-v"}}}},
			command},
		"no command": {&kubevirt.Probe{Handler: kubevirt.Handler{Exec: &corev1.ExecAction{}}}, nil},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, probe(c.in)) })
	}
}

// TestExecProbesNeedMemory has KubeVirt's figures: 100 MiB once and 10 MiB each.
func TestExecProbesNeedMemory(t *testing.T) {
	vmi := example()
	vmi.Spec.LivenessProbe = &kubevirt.Probe{
		Handler: kubevirt.Handler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	require.EqualValues(t, (268+110)*mi, Overhead(vmi, settings.Default()))
	vmi.Spec.ReadinessProbe = vmi.Spec.LivenessProbe
	require.EqualValues(t, (268+120)*mi, Overhead(vmi, settings.Default()))
	vmi.Spec.ReadinessProbe = &kubevirt.Probe{Handler: kubevirt.Handler{GuestAgentPing: &kubevirt.GuestAgentPing{}}}
	require.EqualValues(t, (268+110)*mi, Overhead(vmi, settings.Default()))
}
