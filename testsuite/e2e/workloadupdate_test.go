//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// newerLauncher is the deployed launcher under another name: every node has the newest images as "dev".
const newerLauncher = "localhost/virtflow/launcher:dev"

// TestWorkloadUpdate brings a new launcher image to three running guests, one after the other. It starts no migration
// while it is held. The way back is by eviction.
func TestWorkloadUpdate(t *testing.T) {
	suite.TakeTurn(t, 7)
	untilHealthy(t)
	first := launcherImage(t)
	require.NotEqual(t, newerLauncher, first)
	t.Cleanup(func() {
		setLauncherImages(t, first)
		untilHealthy(t)
	})
	strategy := func(updates, limit string) {
		configured(t, `{"workloadUpdateStrategy":`+updates+`,"configuration":{"migrations":`+
			`{"parallelMigrationsPerCluster":`+limit+`}}}`)
	}
	t.Cleanup(func() { strategy("null", "null") })
	strategy(`{"workloadUpdateMethods":["LiveMigrate"]}`, "1")

	namespace, names := newNamespace(t), []string{"first", "second", "third"}
	machines, guests := map[string]*machine{}, map[string]*kubevirt.VirtualMachineInstance{}
	for _, name := range names {
		machines[name] = &machine{t: t, namespace: namespace, name: name}
		machines[name].apply("Always", "")
	}
	for _, name := range names {
		guests[name] = machines[name].untilBooted()
		require.Equal(t, first, guests[name].Status.LauncherContainerImageVersion)
	}
	one := machines[names[0]]
	one.startCounting()
	counted := one.counted(one.pod())
	require.NotEmpty(t, counted)

	setLauncherImages(t, newerLauncher)
	until(t, 3*time.Minute, "the workload update has begun", func() error {
		var state struct {
			Guests []contract.Movable `json:"guests"`
		}
		if err := tryQuery(contract.WorkloadUpdateID, contract.QueryState, &state); err != nil {
			return err
		}
		if len(state.Guests) < len(names) {
			return fmt.Errorf("it knows of %d guests", len(state.Guests))
		}
		_, err := control(contract.WorkloadUpdateID, contract.ControlHold, `{"actor": "alice", "reason": "a match"}`)
		return err
	})
	untilOutdated(t, namespace, names, "3")
	require.Empty(t, one.migrations(), "it is held")
	_, err := control(contract.WorkloadUpdateID, contract.ControlRelease, `{"actor": "alice"}`)
	require.NoError(t, err)
	_, err = control(contract.WorkloadUpdateID, contract.ControlRetryNow, `{"actor": "alice"}`)
	require.NoError(t, err)

	require.Equal(t, contract.WorkloadUpdateResult{Moved: 3,
		Summary: "No launcher is outdated any more: 3 moved."}, updated(t))
	untilOutdated(t, namespace, nil, "0")
	for _, name := range names {
		vmi, err := machines[name].vmi()
		require.NoError(t, err)
		require.Equal(t, guests[name].UID, vmi.UID)
		require.Equal(t, newerLauncher, vmi.Status.LauncherContainerImageVersion)
		require.NotEqual(t, guests[name].Status.NodeName, vmi.Status.NodeName)
		machines[name].onePod()
		require.Len(t, machines[name].domains(), 1)
	}
	require.Equal(t, newerLauncher, one.kubectl("get", "pod", one.onePod(), "-o",
		`jsonpath={.spec.containers[?(@.name=="compute")].image}`))
	until(t, time.Minute, "the guest continues to count in its new launcher", func() error {
		here := one.counted(one.onePod())
		if len(here) == 0 {
			return fmt.Errorf("it has counted nothing yet")
		}
		require.Greater(t, here[0], counted[len(counted)-1], "it has started to count again")
		return nil
	})

	var ended time.Time
	moves := one.migrations()
	require.Len(t, moves, len(names))
	slices.SortFunc(moves, func(a, b kubevirt.VirtualMachineInstanceMigration) int {
		return reached(t, a, kubevirt.MigrationRunning).Compare(reached(t, b, kubevirt.MigrationRunning))
	})
	for _, m := range moves {
		require.True(t, strings.HasPrefix(m.Name, "kubevirt-workload-update-"), m.Name)
		require.Contains(t, m.Annotations, contract.AnnotationWorkloadUpdate)
		require.Equal(t, kubevirt.PrioritySystemCritical, *m.Spec.Priority)
		require.False(t, reached(t, m, kubevirt.MigrationRunning).Before(ended), "two at a time: %+v", moves)
		ended = reached(t, m, kubevirt.MigrationSucceeded)
	}

	// Guests that must not migrate are evicted, two at a time, and their VMs start new instances in the previous
	// launcher.
	strategy(`{"workloadUpdateMethods":["Evict"],"batchEvictionSize":2,"batchEvictionInterval":"5s"}`, "1")
	setLauncherImages(t, first)
	until(t, 3*migrationTime, "every VM has another instance in the previous launcher", func() error {
		for _, name := range names {
			vmi, err := machines[name].vmi()
			if err != nil {
				return err
			}
			if vmi.UID == guests[name].UID || vmi.Status.LauncherContainerImageVersion != first {
				return fmt.Errorf("instance %s of %s has a launcher of %s", vmi.UID, name,
					vmi.Status.LauncherContainerImageVersion)
			}
		}
		return nil
	})
	require.Equal(t, contract.WorkloadUpdateResult{Evicted: 3,
		Summary: "No launcher is outdated any more: 0 moved, 3 evicted."}, updated(t))
	untilOutdated(t, namespace, nil, "0")
	for _, name := range names {
		machines[name].untilBooted()
		machines[name].remove()
	}
}

// updated waits until the workload update has ended.
func updated(t *testing.T) (result contract.WorkloadUpdateResult) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*migrationTime)
	defer cancel()
	require.NoError(t, temporal(t).GetWorkflow(ctx, contract.WorkloadUpdateID, "").Get(ctx, &result), landscape())
	return result
}

// reached returns when a migration came to a phase.
func reached(
	t *testing.T, m kubevirt.VirtualMachineInstanceMigration, phase kubevirt.VirtualMachineInstanceMigrationPhase,
) time.Time {
	t.Helper()
	for _, at := range m.Status.PhaseTransitionTimestamps {
		if at.Phase == phase {
			return at.PhaseTransitionTimestamp.Time
		}
	}
	require.Fail(t, "a phase was not reached", "%s of %s: %+v", phase, m.Name, m.Status)
	return time.Time{}
}

// launcherImage returns the image of new launchers.
func launcherImage(t *testing.T) string {
	t.Helper()
	flag := kubectl(t, "-n", "virtflow", "get", "deployment", "virtflow-control-worker", "-o",
		"jsonpath={.spec.template.spec.containers[0].args[0]}")
	image, ok := strings.CutPrefix(flag, "--launcher-image=")
	require.True(t, ok, flag)
	return image
}

// setLauncherImages configures every process, the one that creates pods first, and waits for it.
func setLauncherImages(t *testing.T, image string) {
	t.Helper()
	setLauncherImage(t, "control-worker", image)
	kubectl(t, "-n", "virtflow", "rollout", "status", "deployment/virtflow-control-worker", "--timeout=3m")
	setLauncherImage(t, "crdwatch", image)
}

// setLauncherImage configures the image of new launchers in a process, which is replaced by another one.
func setLauncherImage(t *testing.T, process, image string) {
	t.Helper()
	kubectl(t, "-n", "virtflow", "patch", "deployment/virtflow-"+process, "--type=json", "-p",
		`[{"op":"replace","path":"/spec/template/spec/containers/0/args/0","value":"--launcher-image=`+image+`"}]`)
}

// untilOutdated waits until those instances of a namespace are labelled as outdated, and the KubeVirt object's status
// has their number.
func untilOutdated(t *testing.T, namespace string, names []string, count string) {
	t.Helper()
	until(t, time.Minute, "outdated instances are labelled", func() error {
		marked, err := try("-n", namespace, "get", "vmi", "-l", contract.LabelOutdatedImage, "-o",
			"jsonpath={.items[*].metadata.name}")
		if err != nil {
			return err
		}
		said, err := try("-n", "virtflow", "get", "kubevirt", "kubevirt", "-o",
			"jsonpath={.status.outdatedVirtualMachineInstanceWorkloads}")
		if err != nil {
			return err
		}
		if !slices.Equal(strings.Fields(marked), names) || said != count {
			return fmt.Errorf("%s are labelled, and the KubeVirt object's status has %s", marked, said)
		}
		return nil
	})
}
