package diff

import (
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/internal/observe"
)

// migrationPods sends migrations the observations of the launcher pods that concern them. They start no migration.
type migrationPods struct{ *record }

// send sends a launcher pod to the migrations that it concerns.
func (p migrationPods) send(pod *corev1.Pod, from delivery.Cause) {
	o := observe.Pod(pod)
	for _, m := range p.informers.MigrationsOfPod(pod) {
		p.sendTo(m, o, from)
	}
}

// sendTo sends a launcher pod to one migration.
func (p migrationPods) sendTo(m contract.Object, o contract.PodObservation, from delivery.Cause) {
	if k := migrationPodKind(); recordNew(p.record, k, migrationKey(m, o.UID), o) {
		put(p.record, k, contract.MigrationID(m.Namespace, m.Name), o.UID, o, nil, from)
	}
}

// sendGone sends the migrations that a launcher pod concerned that it does not exist any more.
func (p migrationPods) sendGone(pod *corev1.Pod, ref *contract.Object, from delivery.Cause) {
	uid := string(pod.UID)
	for _, m := range p.informers.MigrationsOfPod(pod) {
		forget(p.record, migrationPodKind(), migrationKey(m, uid))
		forget(p.record, migrationNodeKind(), migrationKey(m, uid))
		put(p.record, migrationPodKind(), contract.MigrationID(m.Namespace, m.Name), uid,
			observe.GonePod(uid, pod.Name, ref.UID), nil, from)
	}
}

func (p migrationPods) forgetOf(vmim *kubevirt.VirtualMachineInstanceMigration) {
	forgetOf(p.record, migrationPodKind(), string(vmim.UID))
	forgetOf(p.record, migrationNodeKind(), string(vmim.UID))
}
