package temporalclient

import (
	"fmt"

	"github.com/rs/zerolog"
	sdklog "go.temporal.io/sdk/log"
)

type logger struct{ z zerolog.Logger }

// NewLogger lets the Temporal SDK log through zerolog, with the same keys as virtflow's own lines.
func NewLogger(z zerolog.Logger) sdklog.Logger { return logger{z: z} }

func (l logger) Debug(msg string, kv ...interface{}) { fields(l.z.Debug(), kv).Msg(msg) }
func (l logger) Info(msg string, kv ...interface{})  { fields(l.z.Info(), kv).Msg(msg) }
func (l logger) Warn(msg string, kv ...interface{})  { fields(l.z.Warn(), kv).Msg(msg) }
func (l logger) Error(msg string, kv ...interface{}) { fields(l.z.Error(), kv).Msg(msg) }

func (l logger) With(kv ...interface{}) sdklog.Logger {
	c := l.z.With()
	for i := 0; i+1 < len(kv); i += 2 {
		c = c.Interface(key(kv[i]), kv[i+1])
	}
	return logger{z: c.Logger()}
}

func fields(e *zerolog.Event, kv []interface{}) *zerolog.Event {
	for i := 0; i+1 < len(kv); i += 2 {
		if err, ok := kv[i+1].(error); ok {
			e = e.AnErr(key(kv[i]), err)
			continue
		}
		e = e.Interface(key(kv[i]), kv[i+1])
	}
	return e
}

// key turns the SDK's names into the ones that virtflow uses everywhere.
func key(k interface{}) string {
	switch s := fmt.Sprint(k); s {
	case "WorkflowID":
		return "workflow_id"
	case "RunID":
		return "run_id"
	case "WorkflowType":
		return "workflow_type"
	case "ActivityType":
		return "activity"
	case "Namespace":
		return "temporal_namespace"
	default:
		return s
	}
}
