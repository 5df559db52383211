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

// errSyncing is for the moments after a start: whoever asks tries again.
func errSyncing() error {
	return status.Error(codes.Unavailable, "node gateway: the launcher pods are not known yet")
}

// signal lets a node tell its own entity what it found on its host, and the entity of a VMI how its domain is. The domain is that of a pod,
// and the pod has to be on that node and the VMI's: what it says of its own pod is all that an entity hears from a node.
func (g *Gateway) signal(node string, in *workflowservice.SignalWorkflowExecutionRequest) (*workflowservice.SignalWorkflowExecutionRequest, error) {
	id := in.GetWorkflowExecution().GetWorkflowId()
	switch {
	case in.GetWorkflowExecution().GetRunId() != "":
		return nil, refuse(ReasonWorkflow, "a signal is for whichever run is current, not for one that is named")
	case len(in.GetRequestId()) > maxRequestID:
		return nil, refuse(ReasonTooLarge, "the request ID is longer than %d bytes", maxRequestID)
	case id == contract.NodeID(node):
		if in.GetSignalName() != contract.SignalReportNode {
			return nil, refuse(ReasonSignal, "a node may send its entity the signal %s only", contract.SignalReportNode)
		}
		if _, err := only[contract.NodeReport](in.GetInput()); err != nil {
			return nil, err
		}
	case strings.HasPrefix(id, "vmi/"):
		if in.GetSignalName() != contract.SignalObserveDomain {
			return nil, refuse(ReasonSignal, "a node may send the entity of a VMI the signal %s only", contract.SignalObserveDomain)
		}
		domain, err := only[contract.DomainObservation](in.GetInput())
		if err != nil {
			return nil, err
		}
		if !g.Pods.synced() {
			return nil, errSyncing()
		}
		pod, known := g.Pods.find(domain.PodUID)
		if !known || pod.node != node || pod.workflow != id {
			return nil, refuse(ReasonWorkflow, "no launcher pod with the UID %.64q of %.256q is on node %s", domain.PodUID, id, node)
		}
	default:
		return nil, refuse(ReasonWorkflow, "node %s may signal its own entity and those of the VMIs that it runs, not %.256q", node, id)
	}
	// Built anew: nothing that is not named here gets through.
	return &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: g.Namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: id}, SignalName: in.GetSignalName(),
		Input: plain(in.GetInput().GetPayloads()[0].GetData()), Identity: identity(node), RequestId: in.GetRequestId(),
	}, nil
}

// only reads the one payload of a signal as its workflow will: with encoding/json into the same type.
func only[T any](in *common.Payloads) (T, error) {
	var out T
	if len(in.GetPayloads()) != 1 {
		return out, refuse(ReasonPayload, "a signal has one payload, not %d", len(in.GetPayloads()))
	}
	p := in.GetPayloads()[0]
	if string(p.GetMetadata()[converter.MetadataEncoding]) != converter.MetadataEncodingJSON || len(p.GetExternalPayloads()) > 0 {
		return out, refuse(ReasonPayload, "the payload of a signal is %s", converter.MetadataEncodingJSON)
	}
	if err := json.Unmarshal(p.GetData(), &out); err != nil {
		return out, refuse(ReasonPayload, "the payload of the signal is not what it should be: %.200s", err.Error())
	}
	return out, nil
}

// plain is a payload with nothing but its content.
func plain(data []byte) *common.Payloads {
	return &common.Payloads{Payloads: []*common.Payload{{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}, Data: data,
	}}}
}

func identity(node string) string { return "node-worker@" + node }
