package gateway

import (
	"encoding/json"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/failure/v1"

	"github.com/virtflow/virtflow/contract"
)

const (
	// maxResult bounds the result of an activity, in bytes. The largest that node workers send are a report, some 130
	// KB at most, and the result of an inspection: a domain twice.
	maxResult = 160 << 10
	// Limits of a failure, in bytes; messages of nodes' activities have 1 KiB at most.
	maxFailureMessage, maxFailureStack, maxFailureType = 4 << 10, 8 << 10, 128
	maxFailureCauses                                   = 3
)

// results returns, for each activity of a node, the function that decodes its result and encodes it again.
func results() map[string]func(*common.Payloads) (*common.Payloads, error) {
	return map[string]func(*common.Payloads) (*common.Payloads, error){
		contract.ActivityStartDomain:      reencodeResult[contract.StartDomainResult],
		contract.ActivityOperateDomain:    reencodeResult[contract.OperateDomainResult],
		contract.ActivityReportNode:       reportResult,
		contract.ActivityOfferMigration:   reencodeResult[contract.MigrationOffer],
		contract.ActivityPrepareTarget:    reencodeResult[contract.PreparedTarget],
		contract.ActivityMigrateDomain:    reencodeResult[contract.MigrationOutcome],
		contract.ActivityAbortMigration:   reencodeResult[contract.AbortMigrationResult],
		contract.ActivityAdjustMigration:  noResult,
		contract.ActivityFinishTarget:     reencodeResult[contract.FinishTargetResult],
		contract.ActivityWithdrawTarget:   reencodeResult[contract.WithdrawTargetResult],
		contract.ActivityInspectMigration: reencodeResult[contract.MigrationTruth],
	}
}

// resultOf returns the result of an activity as it is forwarded. An activity that is not in the table is of another
// release; its name comes from Temporal, not from the node.
func resultOf(activity string, in *common.Payloads) (*common.Payloads, error) {
	if rewrite, ok := results()[activity]; ok {
		return rewrite(in)
	}
	if len(in.GetPayloads()) == 0 {
		return nil, nil
	}
	return reencodeResult[json.RawMessage](in)
}

// reencodeResult decodes the result of an activity as a T, and returns its encoding within the limit.
func reencodeResult[T any](in *common.Payloads) (*common.Payloads, error) {
	_, data, err := onePayload[T](in)
	if err != nil {
		return nil, err
	}
	return boundedPayload(data)
}

func reportResult(in *common.Payloads) (*common.Payloads, error) {
	r, _, err := onePayload[contract.ReportNodeResult](in)
	if err != nil {
		return nil, err
	}
	r.Report = r.Report.Bounded()
	data, err := json.Marshal(r)
	if err != nil {
		return nil, refuse(ReasonPayload, "the payload cannot be encoded again: %.200s", err.Error())
	}
	return boundedPayload(data)
}

func noResult(*common.Payloads) (*common.Payloads, error) { return nil, nil }

// boundedPayload returns the payload with that data, or refuses a result above the limit.
func boundedPayload(data []byte) (*common.Payloads, error) {
	if len(data) > maxResult {
		return nil, refuse(ReasonTooLarge, "the result is larger than %d bytes", maxResult)
	}
	return jsonPayload(data), nil
}

// failureOf returns a copy of a failure: its texts cut to size, without details, which activities of nodes do not give.
// A kind that it does not know becomes a retryable failure.
func failureOf(in *failure.Failure, causes int) *failure.Failure {
	if in == nil || causes == 0 {
		return nil
	}
	out := &failure.Failure{
		Message: contract.Cut(in.GetMessage(), maxFailureMessage), Source: contract.Cut(in.GetSource(), maxFailureType),
		StackTrace: contract.Cut(in.GetStackTrace(), maxFailureStack), Cause: failureOf(in.GetCause(), causes-1),
	}
	switch info := in.GetFailureInfo().(type) {
	case *failure.Failure_CanceledFailureInfo:
		out.FailureInfo = &failure.Failure_CanceledFailureInfo{CanceledFailureInfo: &failure.CanceledFailureInfo{}}
	case *failure.Failure_TimeoutFailureInfo:
		out.FailureInfo = &failure.Failure_TimeoutFailureInfo{TimeoutFailureInfo: &failure.TimeoutFailureInfo{
			TimeoutType: info.TimeoutFailureInfo.GetTimeoutType()}}
	default:
		a := in.GetApplicationFailureInfo()
		kept := &failure.ApplicationFailureInfo{
			Type: contract.Cut(a.GetType(), maxFailureType), NonRetryable: a.GetNonRetryable()}
		out.FailureInfo = &failure.Failure_ApplicationFailureInfo{ApplicationFailureInfo: kept}
	}
	return out
}
