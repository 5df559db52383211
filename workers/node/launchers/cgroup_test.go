package launchers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	pod   = "3f2a9c1e-0b5d-4c6e-8f70-112233445566"
	other = "00000000-0b5d-4c6e-8f70-112233445566"
)

func TestInPod(t *testing.T) {
	const host = "0::/system.slice/node-worker.service\n"
	for name, c := range map[string]struct {
		own, peer string
		want      bool
	}{
		"version 2, systemd": {host,
			"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3f2a9c1e_0b5d_4c6e_8f70_112233445566.slice/cri-containerd-1.scope\n", true},
		"version 2, systemd, guaranteed, beneath a root": {host,
			"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod3f2a9c1e_0b5d_4c6e_8f70_112233445566.slice/x\n", true},
		"version 2, cgroupfs": {host,
			"0::/kubepods/besteffort/pod3f2a9c1e-0b5d-4c6e-8f70-112233445566/1\n", true},
		"version 1": {"9:memory:/\n",
			"9:memory:/virtflow/node1/kubepods/burstable/pod3f2a9c1e-0b5d-4c6e-8f70-112233445566/1\n" +
				"1:cpu,cpuacct:/virtflow/node1/kubepods/burstable/pod3f2a9c1e-0b5d-4c6e-8f70-112233445566/1\n0::/\n",
			true},
		"seen from a cgroup namespace": {"0::/\n", "0::/../../pod3f2a9c1e-0b5d-4c6e-8f70-112233445566/1\n",
			true},
		"the node is a pod of another cluster": {"0::/kubepods/pod" + other +
			"/1/node1/kubepods/podaaaaaaaa-0b5d-4c6e-8f70-112233445566/2\n",
			"0::/kubepods/pod" + other + "/1/node1/kubepods/burstable/pod" + pod + "/3\n", true},

		"no pod at all": {host, "0::/user.slice/user-0.slice\n", false},
		"nothing":       {host, "", false},
		"another pod":   {host, "0::/kubepods/besteffort/pod" + other + "/1\n", false},
		"another pod that calls itself this": {host, "0::/kubepods/besteffort/pod" + other + "/1/pod" + pod + "\n",
			false},
		"another pod in one hierarchy": {host,
			"2:cpu:/kubepods/pod" + pod + "/1\n1:memory:/kubepods/pod" + other + "/1\n", false},
		"something that only contains it": {host, "0::/kubepods/xpod" + pod + "/1\n", false},
		"a slice that is none of the kubelet": {host,
			"0::/user.slice/evil-pod3f2a9c1e_0b5d_4c6e_8f70_112233445566.slice\n", false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, isInPod(c.own, c.peer, pod)) })
	}
}

func TestValidPodUID(t *testing.T) {
	for uid, want := range map[string]bool{
		pod: true, "0123456789abcdef0123456789abcdef": true,
		"": false, "..": false, "../../etc/passwd-aaaaaaaaaaaaaaaaaaaa": false, pod + "/x": false, pod + "\n": false,
		"short": false,
	} {
		require.Equal(t, want, IsValidPodUID(uid), uid)
	}
}
