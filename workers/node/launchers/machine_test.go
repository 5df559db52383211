package launchers_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
)

func TestMachineIsWhatKubeletHasWritten(t *testing.T) {
	node := launchertest.NewNode(t)
	node.AddPod(t, pod)
	node.WriteVMI(t, pod, `{"metadata":{"namespace":"default","name":"web","uid":"u1","labels":{"app":"web",
		"kubevirt.io/nodeName":"n"}},
		"spec":{"domain":{"cpu":{"cores":2},"devices":{"disks":[{"name":"root"},{"name":"data"}],
		"interfaces":[{"name":"default"}]}}}}`)
	m, err := node.Dialer().Machine(pod)
	require.NoError(t, err)
	require.Equal(t, launchers.Machine{
		VMI:    contract.Object{Namespace: "default", Name: "web", UID: "u1"},
		Labels: map[string]string{"app": "web"}, Disks: []string{"root", "data"}, Interfaces: []string{"default"},
		VCPUs: 2,
	}, m)
}

func TestMachineRejectsOtherFiles(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "vmi.json")
	require.NoError(t, os.WriteFile(outside, []byte(`{}`), 0o600))
	for name, plant := range map[string]func(t *testing.T, volume string){
		"no volume":   func(t *testing.T, volume string) { require.NoError(t, os.RemoveAll(volume)) },
		"no JSON":     func(t *testing.T, volume string) { write(t, volume, "{") },
		"a huge file": func(t *testing.T, volume string) { write(t, volume, string(make([]byte, 1<<20))) },
		"a link out of the volume": func(t *testing.T, volume string) {
			require.NoError(t, os.Symlink(outside, filepath.Join(volume, "vmi.json")))
		},
		"a volume that is a link": func(t *testing.T, volume string) {
			require.NoError(t, os.Remove(volume))
			require.NoError(t, os.Symlink(filepath.Dir(outside), volume))
		},
		"a FIFO": func(t *testing.T, volume string) {
			require.NoError(t, unix.Mkfifo(filepath.Join(volume, "vmi.json"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := launchertest.NewNode(t)
			node.AddPod(t, pod)
			volume := node.AddVMIVolume(t, pod)
			plant(t, volume)
			_, err := node.Dialer().Machine(pod)
			require.Error(t, err)
		})
	}
	_, err := launchertest.NewNode(t).Dialer().Machine("../" + pod)
	require.ErrorContains(t, err, "not the UID of a pod")
}

func write(t *testing.T, volume, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(volume, "vmi.json"), []byte(content), 0o600))
}
