//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestMigrationWithoutCapacity: a migration whose target pod exceeds a quota waits for the quota, with a condition; one
// whose pod is unschedulable, or does not run in time, fails. The guest is not affected.
func TestMigrationWithoutCapacity(t *testing.T) {
	suite.TakeTurn(t, 1)
	untilHealthy(t)
	m := newMachine(t, "crowded", "Always", "")
	before := m.untilBooted()
	m.startCounting()
	source := m.domains()
	require.Len(t, source, 1)
	target := m.otherNode()

	for annotation, why := range map[string]string{
		"migrationUnschedulablePodTimeoutSeconds": "Migration target pod was unschedulable for too long",
		"migrationPendingPodTimeoutSeconds":       "Migration target pod was pending for too long",
	} {
		name := strings.ToLower(annotation)
		m.createMigration(name, fmt.Sprintf(`, annotations: {kubevirt.io/%s: "3"}`, annotation), nowhere)
		last := m.untilFinal(name)
		require.Equal(t, kubevirt.MigrationFailed, last.Status.Phase, "%+v", last.Status)
		until(t, time.Minute, "an event has the reason", func() error {
			said := m.kubectl("get", "events", "--field-selector", "reason=FailedMigration,involvedObject.name="+name, "-o",
				"jsonpath={.items[*].message}")
			if !strings.Contains(said, why) {
				return fmt.Errorf("said: %q", said)
			}
			return nil
		})
		m.checkNothingLeft(source, target)
	}

	apply(t, "{apiVersion: v1, kind: ResourceQuota, metadata: {name: pods, namespace: "+m.namespace+
		`}, spec: {hard: {pods: "1"}}}`)
	until(t, time.Minute, "the quota has been counted", func() error {
		if used := m.kubectl("get", "resourcequota", "pods", "-o", "jsonpath={.status.used.pods}"); used != "1" {
			return fmt.Errorf("%q pods", used)
		}
		return nil
	})
	m.createMigration("more", "", "")
	until(t, time.Minute, "the migration waits for the quota", func() error {
		one := m.newest()
		if one == nil {
			return fmt.Errorf("there is none")
		}
		require.False(t, one.IsFinal(), "%+v", one.Status)
		for _, c := range one.Status.Conditions {
			if c.Type == kubevirt.VirtualMachineInstanceMigrationRejectedByResourceQuota &&
				strings.Contains(c.Message, "exceeded quota") && one.Status.Phase == kubevirt.MigrationPending {
				return nil
			}
		}
		return fmt.Errorf("%s: %+v", one.Status.Phase, one.Status.Conditions)
	})
	m.checkNothingLeft(source, target)
	m.kubectl("patch", "resourcequota", "pods", "--type=merge", "-p", `{"spec":{"hard":{"pods":"2"}}}`)
	until(t, time.Minute, "the quota is larger", func() error {
		if hard := m.kubectl("get", "resourcequota", "pods", "-o", "jsonpath={.status.hard.pods}"); hard != "2" {
			return fmt.Errorf("for %q pods", hard)
		}
		return nil
	})
	// Refused if the migration has just retried by itself.
	_, _ = control(contract.MigrationID(m.namespace, "more"), contract.ControlRetryNow, alice)
	require.Equal(t, target, m.untilMigrated().Status.NodeName)
	m.checkRunsOnce(string(before.UID))
	m.remove()
}
