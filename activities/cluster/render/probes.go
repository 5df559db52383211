package render

import (
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

// launcherProgram is run in the container for what only the guest's agent can answer or do: a kubelet's probe, or a
// hook of a backup.
const launcherProgram = "/usr/bin/launcher"

const (
	// bootDelay is added to the initial delay of every probe, in seconds, as KubeVirt does: a guest takes longer than a
	// process.
	bootDelay = 10
	// agentMargin is how much longer, in seconds, the kubelet waits for a probe that asks the guest's agent than the
	// agent is given: the probe itself then says what was wrong. KubeVirt's figure.
	agentMargin = 1
)

// probe returns a VMI's probe as the kubelet does it. It reaches the guest by the pod's address, or by the guest's
// agent with a command in the launcher's container.
func probe(p *kubevirt.Probe) *corev1.Probe {
	if p == nil {
		return nil
	}
	out := &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: p.HTTPGet, TCPSocket: p.TCPSocket},
		InitialDelaySeconds: p.InitialDelaySeconds + bootDelay,
		TimeoutSeconds:      p.TimeoutSeconds,
		PeriodSeconds:       p.PeriodSeconds,
		SuccessThreshold:    p.SuccessThreshold,
		FailureThreshold:    p.FailureThreshold,
	}
	timeout := max(1, p.TimeoutSeconds) // Kubernetes' own default
	command := []string{launcherProgram, "probe", "--timeout-seconds", strconv.Itoa(int(timeout))}
	switch {
	case p.GuestAgentPing != nil:
		command = append(command, "--guest-agent-ping")
	case p.Exec != nil && len(p.Exec.Command) > 0:
		command = append(command, "--command", p.Exec.Command[0], "--")
		command = append(command, p.Exec.Command[1:]...)
	case p.HTTPGet == nil && p.TCPSocket == nil:
		return nil
	default:
		return out
	}
	out.Exec = &corev1.ExecAction{Command: command}
	out.TimeoutSeconds = timeout + agentMargin
	return out
}

// arrivalPeriod is how often, in seconds, a kubelet asks for a guest that is to arrive: for so long at most the pod is
// not ready though its guest runs.
const arrivalPeriod = 1

// awaitGuest keeps a kubelet from asking whether the guest of a migration's target is alive before it has arrived: it
// would kill the launcher while memory is copied. How long that takes is the migration's business, so that the probe
// never ends the container by itself.
func awaitGuest(c *corev1.Container) {
	if c.LivenessProbe == nil {
		return
	}
	c.StartupProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{
			Command: []string{launcherProgram, "probe", "--arrived"}}},
		TimeoutSeconds: 1 + agentMargin, PeriodSeconds: arrivalPeriod, FailureThreshold: math.MaxInt32,
	}
}
