package diff

import (
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/internal/observe"
)

// kind describes one kind of observation.
type kind[O any] struct {
	name   delivery.Kind
	signal string
	// same reports whether an observation is not worth sending after the last one.
	same func(last, now O) bool
}

// The following kinds are of observations for another workflow than that of the observed object.
func copyKind() kind[contract.VMIObservation] {
	return kind[contract.VMIObservation]{name: delivery.KindVMIForVM, signal: contract.SignalObserveVMI,
		same: observe.SameCopy}
}

func replicaKind() kind[contract.ReplicaObservation] {
	return kind[contract.ReplicaObservation]{name: delivery.KindReplicas, signal: contract.SignalObserveReplicas,
		same: observe.SameReplica}
}

func queuedKind() kind[contract.QueuedMigration] {
	return kind[contract.QueuedMigration]{name: delivery.KindMigrationForQueue, signal: contract.SignalObserveMigration,
		same: observe.SameQueued}
}

func podKind() kind[contract.PodObservation] {
	return kind[contract.PodObservation]{
		name: delivery.KindPod, signal: contract.SignalObservePod,
		same: func(last, now contract.PodObservation) bool { return !observe.SignificantPod(last, now) },
	}
}

func nodeStateKind() kind[contract.NodeState] {
	return kind[contract.NodeState]{name: delivery.KindNodeForVMI, signal: contract.SignalObserveNode,
		same: observe.SameNodeState}
}

// migrationPodKind and migrationNodeKind are podKind and nodeStateKind for migrations.
func migrationPodKind() kind[contract.PodObservation] {
	k := podKind()
	k.name = delivery.KindPodForMigration
	return k
}

func migrationNodeKind() kind[contract.NodeState] {
	k := nodeStateKind()
	k.name = delivery.KindNodeForMigration
	return k
}

// migrationKey identifies a launcher pod in the record of one migration.
func migrationKey(m contract.Object, pod string) string { return m.UID + "/" + pod }
