package machinemetrics

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/crdwatch/watch"
)

// Migrations has KubeVirt's metrics of migrations, with its names, labels and buckets. It computes them from the
// leader's informers.
type Migrations struct {
	leading Leader

	inPhase                               map[string]*prometheus.Desc
	succeeded, failed, startTime, endTime *prometheus.Desc
	transitions                           *prometheus.HistogramVec
}

// The phases that are counted, by KubeVirt's names.
const (
	phaseUnset, phasePending, phaseScheduling, phaseRunning = "unset", "pending", "scheduling", "running"
)

// NewMigrations returns the metrics of the leader's migrations.
func NewMigrations(leading Leader) *Migrations {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m := &Migrations{
		leading: leading, inPhase: map[string]*prometheus.Desc{},
		succeeded: desc("kubevirt_vmi_migration_succeeded", "Migrations that have succeeded.", "vmi", "vmim",
			"namespace"),
		failed: desc("kubevirt_vmi_migration_failed", "Migrations that have failed.", "vmi", "vmim", "namespace"),
		startTime: desc("kubevirt_vmi_migration_start_time_seconds",
			"When the last migration of a VMI began, in seconds since 1970.", "node", "namespace", "name",
			"migration_name"),
		endTime: desc("kubevirt_vmi_migration_end_time_seconds",
			"When the last migration of a VMI ended, in seconds since 1970.", "node", "namespace", "name",
			"migration_name", "status"),
		transitions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kubevirt_vmi_migration_phase_transition_time_from_creation_seconds",
			Help:    "Time from the creation of a migration to its phases.",
			Buckets: phaseBuckets(),
		}, []string{"phase"}),
	}
	for _, phase := range []string{phaseUnset, phasePending, phaseScheduling, phaseRunning} {
		m.inPhase[phase] = desc(fmt.Sprintf("kubevirt_vmi_migrations_in_%s_phase", phase),
			fmt.Sprintf("Migrations in the phase %s.", phase))
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *Migrations) Describe(out chan<- *prometheus.Desc) {
	for _, d := range m.inPhase {
		out <- d
	}
	for _, d := range []*prometheus.Desc{m.succeeded, m.failed, m.startTime, m.endTime} {
		out <- d
	}
	m.transitions.Describe(out)
}

// Collect implements prometheus.Collector.
func (m *Migrations) Collect(out chan<- prometheus.Metric) {
	m.transitions.Collect(out)
	i := m.leading()
	if i == nil {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counts, names := map[string]int{}, map[string]string{}
	for _, vmim := range watch.List[*kubevirt.VirtualMachineInstanceMigration](i.Migrations) {
		names[string(vmim.UID)] = vmim.Name
		switch phase := countedPhase(vmim.Status.Phase); {
		case phase != "":
			counts[phase]++
		case vmim.Status.Phase == kubevirt.MigrationSucceeded:
			gauge(m.succeeded, 1, vmim.Spec.VMIName, vmim.Name, vmim.Namespace)
		default:
			gauge(m.failed, 1, vmim.Spec.VMIName, vmim.Name, vmim.Namespace)
		}
	}
	for phase, d := range m.inPhase {
		gauge(d, float64(counts[phase]))
	}
	for _, vmi := range watch.List[*kubevirt.VirtualMachineInstance](i.VMIs) {
		s := vmi.Status.MigrationState
		if s == nil {
			continue
		}
		labels := []string{vmi.Status.NodeName, vmi.Namespace, vmi.Name, names[string(s.MigrationUID)]}
		if s.StartTimestamp != nil {
			gauge(m.startTime, seconds(s.StartTimestamp), labels...)
		}
		if s.EndTimestamp != nil {
			result := "succeeded"
			if s.Failed {
				result = "failed"
			}
			gauge(m.endTime, seconds(s.EndTimestamp), append(slices.Clone(labels), result)...)
		}
	}
}

// countedPhase returns the phase that a migration is counted in; "": it has ended.
func countedPhase(phase kubevirt.VirtualMachineInstanceMigrationPhase) string {
	switch phase {
	case kubevirt.MigrationPhaseUnset:
		return phaseUnset
	case kubevirt.MigrationPending, kubevirt.MigrationWaitingForSync, kubevirt.MigrationSynchronizing:
		return phasePending
	case kubevirt.MigrationScheduling:
		return phaseScheduling
	case kubevirt.MigrationScheduled, kubevirt.MigrationPreparingTarget, kubevirt.MigrationTargetReady,
		kubevirt.MigrationRunning:
		return phaseRunning
	case kubevirt.MigrationSucceeded, kubevirt.MigrationFailed:
	}
	return ""
}

func seconds(t *metav1.Time) float64 {
	return float64(t.UnixMilli()) / float64(time.Second.Milliseconds())
}

// Follow observes the phases of migrations while this process leads.
func (m *Migrations) Follow(i *watch.Informers) error {
	return followUpdates(m.leading, i, i.Migrations, m.observe)
}

// observe observes the phases that one update has added: a short migration passes several in one.
func (m *Migrations) observe(old, now *kubevirt.VirtualMachineInstanceMigration) {
	for _, t := range now.Status.PhaseTransitionTimestamps {
		known := slices.ContainsFunc(old.Status.PhaseTransitionTimestamps,
			func(o kubevirt.VirtualMachineInstanceMigrationPhaseTransitionTimestamp) bool {
				return o.Phase == t.Phase
			})
		if !known {
			m.transitions.WithLabelValues(string(t.Phase)).
				Observe(max(0, t.PhaseTransitionTimestamp.Sub(now.CreationTimestamp.Time).Seconds()))
		}
	}
}
