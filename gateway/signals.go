package gateway

import (
	"encoding/json"
	"strings"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/contract"
)

// maxRequestID bounds the ID by which Temporal recognizes a repeated signal, in bytes.
const maxRequestID = 128

// maxObservation bounds the observation of one domain, in bytes. A guest with as many interfaces as an observation
// lists, all with names that grow when they are encoded, stays below: else it could block the signals to its own VMI.
const maxObservation = 64 << 10

// errSyncing returns the error for the moments after a start: the caller tries again.
func errSyncing() error {
	return status.Error(codes.Unavailable, "node gateway: the launcher pods are not known yet")
}

// checkSignal checks a signal from a node, and returns the one to forward. A node may signal its own node workflow (the
// state of its host) and the workflow of a VMI (the state of a domain). The pod of that domain has to be on that node
// and belong to that VMI: a VMI's workflow gets observations of its own pods only.
func (g *Gateway) checkSignal(
	node string, in *workflowservice.SignalWorkflowExecutionRequest,
) (*workflowservice.SignalWorkflowExecutionRequest, error) {
	id := in.GetWorkflowExecution().GetWorkflowId()
	var payload []byte
	switch {
	case in.GetWorkflowExecution().GetRunId() != "":
		return nil, refuse(ReasonWorkflow, "a signal must not name a run ID: it goes to the current run")
	case len(in.GetRequestId()) > maxRequestID:
		return nil, refuse(ReasonTooLarge, "the request ID is longer than %d bytes", maxRequestID)
	case id == contract.NodeID(node):
		if in.GetSignalName() != contract.SignalReportNode {
			return nil, refuse(ReasonSignal, "a node may send its entity the signal %s only", contract.SignalReportNode)
		}
		report, _, err := onePayload[contract.NodeReport](in.GetInput())
		if err != nil {
			return nil, err
		}
		if payload, err = json.Marshal(report.Bounded()); err != nil {
			return nil, refuse(ReasonPayload, "the payload cannot be encoded again: %.200s", err.Error())
		}
	case strings.HasPrefix(id, "vmi/"):
		if in.GetSignalName() != contract.SignalObserveDomain {
			return nil, refuse(ReasonSignal, "a node may send the entity of a VMI the signal %s only",
				contract.SignalObserveDomain)
		}
		domain, data, err := onePayload[contract.DomainObservation](in.GetInput())
		if err != nil {
			return nil, err
		}
		if len(data) > maxObservation {
			return nil, refuse(ReasonTooLarge, "the observation of the domain is larger than %d bytes", maxObservation)
		}
		payload = data
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
	// A new request: no field that is not named here gets through.
	return &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: g.Namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: id},
		SignalName: in.GetSignalName(),
		Input:      jsonPayload(payload), Identity: identity(node), RequestId: in.GetRequestId(),
	}, nil
}

// onePayload decodes the only payload of a signal, a heartbeat or a result as its reader will: with encoding/json into
// the same type. It returns the value and its encoding, without unknown fields and without what decoders may read
// differently, such as a duplicate field.
func onePayload[T any](in *common.Payloads) (out T, written []byte, err error) {
	if len(in.GetPayloads()) != 1 {
		return out, nil, refuse(ReasonPayload, "a signal, heartbeat or result needs one payload, not %d",
			len(in.GetPayloads()))
	}
	p := in.GetPayloads()[0]
	if string(p.GetMetadata()[converter.MetadataEncoding]) != converter.MetadataEncodingJSON ||
		len(p.GetExternalPayloads()) > 0 {
		return out, nil, refuse(ReasonPayload, "the payload has to be %s", converter.MetadataEncodingJSON)
	}
	if err := json.Unmarshal(p.GetData(), &out); err != nil {
		return out, nil, refuse(ReasonPayload, "the payload cannot be decoded: %.200s", err.Error())
	}
	if written, err = json.Marshal(out); err != nil {
		return out, nil, refuse(ReasonPayload, "the payload cannot be encoded again: %.200s", err.Error())
	}
	return out, written, nil
}

// jsonPayload returns a payload with nothing but its content.
func jsonPayload(data []byte) *common.Payloads {
	return &common.Payloads{Payloads: []*common.Payload{{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}, Data: data,
	}}}
}

func identity(node string) string { return "node-worker@" + node }
