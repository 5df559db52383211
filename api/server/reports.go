package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.temporal.io/sdk/client"

	"github.com/virtflow/virtflow/workflows/contract"
)

// reports signals workflows. One that is lost is counted: nothing waits for it, and history has a name less.
type reports struct {
	temporal client.Client
	log      zerolog.Logger
	lost     prometheus.Counter
}

func newReports(temporal client.Client, log zerolog.Logger, r prometheus.Registerer) *reports {
	lost := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "virtflow_reports_lost_total", Help: "Reports of who deletes or scales an object that did not reach its workflow.",
	})
	r.MustRegister(lost)
	return &reports{temporal: temporal, log: log, lost: lost}
}

// Report implements admission.Reports.
func (r *reports) Report(ctx context.Context, workflow string, report contract.RequestReport) {
	if err := r.temporal.SignalWorkflow(ctx, workflow, "", contract.SignalReportRequest, report); err != nil {
		r.lost.Inc()
		r.log.Debug().Err(err).Str("workflow_id", workflow).Str("operation", string(report.Operation)).Msg("who asked is not recorded")
	}
}
