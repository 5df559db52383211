package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtflow/virtflow/contract"
)

// Who KubeVirt names as the source of an event; clients filter by these.
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

// recordEvent records an event about something done already: nothing waits for it, and an event may be lost, so that
// the work is not repeated for it. Its name is derived from its object, reason and occasion, so that a repeated attempt
// writes it once; occasion distinguishes two events of one reason on one object.
func (a *Activities) recordEvent(kind string, o contract.Object, e contract.Event, occasion string) {
	a.recordBy(component(kind, e.Reason), kind, o, e, occasion)
}

// recordBy is recordEvent with the given KubeVirt component as the event's source.
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

// component returns the component that KubeVirt names as an event's source: its node agent for domains and their moves,
// its controller for everything else.
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

func normalEvent(reason, message string) contract.Event {
	return contract.Event{Type: corev1.EventTypeNormal, Reason: reason, Message: message}
}

func warningEvent(reason, message string) contract.Event {
	return contract.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message}
}
