package report

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/virtflow/virtflow/contract"
)

func TestReadHost(t *testing.T) {
	require.Equal(t, Host{Arch: runtime.GOARCH, CPUVendor: "AMD", CPUModel: "AMD EPYC: 7B13"},
		ReadHost("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC: 7B13\n\nprocessor\t: 1\nmodel "+
			"name\t: other\n"))
	require.Equal(t, Host{Arch: runtime.GOARCH}, ReadHost(""))
}

type entity struct{ failures []error }

func (e *entity) SignalWorkflow(_ context.Context, id, _, name string, arg any) error {
	if len(e.failures) > 0 {
		err := e.failures[0]
		e.failures = e.failures[1:]
		return err
	}
	if id != "node/node1" || name != contract.SignalReportNode || !arg.(contract.NodeReport).KVM {
		return errors.New("wrong signal")
	}
	return nil
}

func TestSendWaitsForTheEntity(t *testing.T) {
	e := &entity{failures: []error{serviceerror.NewNotFound("no workflow"), serviceerror.NewUnavailable("away")}}
	Send(context.Background(), e, "node1", contract.NodeReport{KVM: true}, zerolog.Nop())
	require.Empty(t, e.failures)
}
