package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Who KubeVirt says that an event comes from; clients filter by these.
const (
	componentController = "virtualmachine-controller"
	componentNode       = "virt-handler"
	componentReplicaSet = "virtualmachinereplicaset-controller"
	componentEvacuation = "evacuation-controller"
	componentUpdate     = "workload-update-controller"
)

// Kinds of objects that events are about.
const (
	kindVM    = "VirtualMachine"
	kindVMI   = "VirtualMachineInstance"
	kindVMIRS = "VirtualMachineInstanceReplicaSet"
	kindVMIM  = "VirtualMachineInstanceMigration"
	kindNode  = "Node"
)

// maxEventMessage is the API server's limit for an event's message, in bytes.
const maxEventMessage = 1024

// recordEvent records an event that goes with something done already: nobody waits for it, and it is lost rather than
// that thing done again. Its name is derived from what it is about, so that a repeated attempt writes it once; occasion
// tells two events of one reason on one object apart.
func (a *Activities) recordEvent(kind string, o contract.Object, e contract.Event, occasion string) {
	a.recordBy(component(kind, e.Reason), kind, o, e, occasion)
}

// recordBy is recordEvent for what a certain component of KubeVirt's says.
func (a *Activities) recordBy(by, kind string, o contract.Object, e contract.Event, occasion string) {
	stamp := metav1.NewTime(a.Now().UTC().Truncate(time.Second))
	namespace, apiVersion := o.Namespace, "kubevirt.io/v1"
	if kind == kindNode {
		namespace, apiVersion = metav1.NamespaceDefault, "v1"
	}
	a.Record(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: eventName(o, e, occasion), Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: apiVersion, Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: types.UID(o.UID),
		},
		Type:                e.Type,
		Reason:              e.Reason,
		Message:             contract.Cut(e.Message, maxEventMessage),
		Source:              corev1.EventSource{Component: by},
		ReportingController: by,
		FirstTimestamp:      stamp,
		LastTimestamp:       stamp,
		Count:               1,
	})
}

// component is who KubeVirt has say this: its node agent speaks of domains and their moves, its
// controller of everything else.
func component(kind, reason string) string {
	if kind == kindVMIRS {
		return componentReplicaSet
	}
	switch reason {
	case "Created", "Started", "Stopped", "ShuttingDown", "Deleted", "PreparingTarget", "Migrating", "Migrated",
		"AccessCredentialsSyncSuccess", "AccessCredentialsSyncFailed":
		return componentNode
	default:
		return componentController
	}
}

func eventName(o contract.Object, e contract.Event, occasion string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{o.UID, e.Reason, occasion}, "\x00")))
	return contract.Cut(o.Name, 200) + "." + hex.EncodeToString(sum[:8])
}

func normal(reason, message string) contract.Event {
	return contract.Event{Type: corev1.EventTypeNormal, Reason: reason, Message: message}
}

func warning(reason, message string) contract.Event {
	return contract.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message}
}
