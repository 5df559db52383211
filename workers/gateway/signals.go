package gateway

import (
	"encoding/json"
	"strings"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/workflows/contract"
)

// maxRequestID bounds what a caller chooses to tell two tries of one signal from two signals.
const maxRequestID = 128

// maxObservation bounds what is told of one domain. A guest with as many interfaces as are told, all with names that
// grow when they are encoded, stays below: else it could keep its VMI from hearing of it.
const maxObservation = 64 << 10

// errSyncing is for the moments after a start: whoever asks tries again.
func errSyncing() error {
	return status.Error(codes.Unavailable, "node gateway: the launcher pods are not known yet")
}

// signal lets a node tell its own entity what it found on its host, and the entity of a VMI how its domain is. The
// domain is that of a pod, and the pod has to be on that node and the VMI's: what it says of its own pod is all that an
// entity hears from a node.
func (g *Gateway) signal(
	node string, in *workflowservice.SignalWorkflowExecutionRequest,
) (*workflowservice.SignalWorkflowExecutionRequest, error) {
	id := in.GetWorkflowExecution().GetWorkflowId()
	var told []byte
	switch {
	case in.GetWorkflowExecution().GetRunId() != "":
		return nil, refuse(ReasonWorkflow, "a signal is for whichever run is current, not for one that is named")
	case len(in.GetRequestId()) > maxRequestID:
		return nil, refuse(ReasonTooLarge, "the request ID is longer than %d bytes", maxRequestID)
	case id == contract.NodeID(node):
		if in.GetSignalName() != contract.SignalReportNode {
			return nil, refuse(ReasonSignal, "a node may send its entity the signal %s only", contract.SignalReportNode)
		}
		_, data, err := only[contract.NodeReport](in.GetInput())
		if err != nil {
			return nil, err
		}
		told = data
	case strings.HasPrefix(id, "vmi/"):
		if in.GetSignalName() != contract.SignalObserveDomain {
			return nil, refuse(ReasonSignal, "a node may send the entity of a VMI the signal %s only",
				contract.SignalObserveDomain)
		}
		domain, data, err := only[contract.DomainObservation](in.GetInput())
		if err != nil {
			return nil, err
		}
		if len(data) > maxObservation {
			return nil, refuse(ReasonTooLarge, "what is told of a domain is larger than %d bytes", maxObservation)
		}
		told = data
		if !g.Pods.synced() {
			return nil, errSyncing()
		}
		pod, known := g.Pods.find(domain.PodUID)
		if !known || pod.node != node || pod.workflow != id {
			return nil, refuse(ReasonWorkflow, "no launcher pod with the UID %.64q of %.256q is on node %s",
				domain.PodUID, id, node)
		}
	default:
		return nil, refuse(ReasonWorkflow,
			"node %s may signal its own entity and those of the VMIs that it runs, not %.256q", node, id)
	}
	// Built anew: nothing that is not named here gets through.
	return &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: g.Namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: id},
		SignalName: in.GetSignalName(),
		Input:      plain(told), Identity: identity(node), RequestId: in.GetRequestId(),
	}, nil
}

// only reads the one payload of a signal or a heartbeat as its reader will: with encoding/json into the same type. It
// gives the value and how it is written: what a node put beside, and what different readers may take differently, such
// as a field twice, is left out.
func only[T any](in *common.Payloads) (out T, written []byte, err error) {
	if len(in.GetPayloads()) != 1 {
		return out, nil, refuse(ReasonPayload, "there has to be one payload, not %d", len(in.GetPayloads()))
	}
	p := in.GetPayloads()[0]
	if string(p.GetMetadata()[converter.MetadataEncoding]) != converter.MetadataEncodingJSON ||
		len(p.GetExternalPayloads()) > 0 {
		return out, nil, refuse(ReasonPayload, "the payload has to be %s", converter.MetadataEncodingJSON)
	}
	if err := json.Unmarshal(p.GetData(), &out); err != nil {
		return out, nil, refuse(ReasonPayload, "the payload is not what it should be: %.200s", err.Error())
	}
	if written, err = json.Marshal(out); err != nil {
		return out, nil, refuse(ReasonPayload, "the payload cannot be written again: %.200s", err.Error())
	}
	return out, written, nil
}

// plain is a payload with nothing but its content.
func plain(data []byte) *common.Payloads {
	return &common.Payloads{Payloads: []*common.Payload{{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}, Data: data,
	}}}
}

func identity(node string) string { return "node-worker@" + node }
