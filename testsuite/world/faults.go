package world

import (
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Mode is how an activity fails.
type Mode string

// Modes. But for the last three only the first attempt of the one invocation fails.
const (
	Before        Mode = "before"         // an error that may pass, and nothing was done
	After         Mode = "after"          // it was done, and an error that may pass was answered
	TimeoutBefore Mode = "timeout-before" // nothing was done, and no answer came until the attempt's time was up
	TimeoutAfter  Mode = "timeout-after"  // it was done, and no answer came
	NonRetryable  Mode = "non-retryable"  // refused for good
	Hour          Mode = "an-hour"        // every attempt, of this and later invocations, fails for an hour
	HourAfter     Mode = "an-hour-after"  // as Hour, but each attempt has its effect
	Forever       Mode = "for-ever"       // as Hour, until the end of the story
)

// Modes lists all.
func Modes() []Mode {
	return []Mode{Before, After, TimeoutBefore, TimeoutAfter, NonRetryable, Hour, HourAfter, Forever}
}

// Fault is one way in which one invocation fails.
type Fault struct {
	Activity string
	Ordinal  int // the n-th logical call of that activity in the story, from 1
	Mode     Mode
}

func (f Fault) String() string { return fmt.Sprintf("%s#%d/%s", f.Activity, f.Ordinal, f.Mode) }

// verdict is what becomes of one attempt.
type verdict struct {
	effect bool // the activity is done
	err    error
	late   bool // the answer is a time-out
}

// judge decides about one attempt.
func (w *World) judge(activity string, ordinal, attempt int) verdict {
	well := verdict{effect: true}
	if w.missing.stuck() {
		return verdict{err: errAway()}
	}
	f := w.fault
	if f == nil || f.Activity != activity || f.Mode.ofEngine() || w.healed {
		return well
	}
	lasting := f.Mode == Hour || f.Mode == HourAfter || f.Mode == Forever
	if lasting {
		if ordinal < f.Ordinal {
			return well
		}
		if w.faultSince.IsZero() {
			w.faultSince = w.Now()
		}
		if f.Mode != Forever && w.Now().Sub(w.faultSince) > time.Hour {
			return well
		}
	} else if ordinal != f.Ordinal || attempt != 1 || w.faultHit > 0 {
		return well
	}
	w.faultHit++
	passing := temporal.NewApplicationError("injected: "+f.String(), "Kubernetes")
	switch f.Mode {
	case Before, Hour, Forever:
		return verdict{err: passing}
	case After, HourAfter:
		return verdict{effect: true, err: passing}
	case TimeoutBefore:
		return verdict{late: true}
	case TimeoutAfter:
		return verdict{effect: true, late: true}
	case NonRetryable:
		return verdict{err: temporal.NewNonRetryableApplicationError("injected: "+f.String(), contract.ErrorInvalid,
			nil)}
	default:
		panic("unknown mode " + f.Mode)
	}
}

func timedOut(kind enumspb.TimeoutType, last error) error {
	return temporal.NewTimeoutError(kind, last)
}
