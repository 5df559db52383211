package world

import (
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
)

// Mode is a way in which an activity fails.
type Mode string

// Modes. With all but the last three, only the first attempt of the one invocation fails.
const (
	Before        Mode = "before"         // a retryable error; nothing was done
	After         Mode = "after"          // a retryable error, although it was done
	TimeoutBefore Mode = "timeout-before" // nothing was done, and no answer came before the attempt's timeout
	TimeoutAfter  Mode = "timeout-after"  // it was done, and no answer came
	NonRetryable  Mode = "non-retryable"  // refused for good
	Hour          Mode = "an-hour"        // a retryable error at each attempt, for an hour; nothing was done
	HourAfter     Mode = "an-hour-after"  // as Hour, but each attempt has its effect
	Forever       Mode = "for-ever"       // as Hour, until the end of the story
)

// Modes lists all modes.
func Modes() []Mode {
	return []Mode{Before, After, TimeoutBefore, TimeoutAfter, NonRetryable, Hour, HourAfter, Forever}
}

// Fault selects one invocation and the way in which it fails.
type Fault struct {
	Activity string
	Ordinal  int // the n-th logical call of that activity in the story, from 1
	Mode     Mode
}

func (f Fault) String() string { return fmt.Sprintf("%s#%d/%s", f.Activity, f.Ordinal, f.Mode) }

// verdict has the outcome of one attempt.
type verdict struct {
	effect bool // the activity runs
	err    error
	late   bool // the attempt times out
}

// judge returns the outcome of one attempt.
func (w *World) judge(activity string, ordinal, attempt int) verdict {
	succeeds := verdict{effect: true}
	if w.missing.isStuck() {
		return verdict{err: errAway()}
	}
	f := w.fault
	if f == nil || f.Activity != activity || f.Mode.isEngineFault() || w.healed {
		return succeeds
	}
	lasting := f.Mode == Hour || f.Mode == HourAfter || f.Mode == Forever
	if lasting {
		if ordinal < f.Ordinal {
			return succeeds
		}
		if w.faultSince.IsZero() {
			w.faultSince = w.Now()
		}
		if f.Mode != Forever && w.Now().Sub(w.faultSince) > time.Hour {
			return succeeds
		}
	} else if ordinal != f.Ordinal || attempt != 1 || w.faultHit > 0 {
		return succeeds
	}
	w.faultHit++
	retryable := temporal.NewApplicationError("injected: "+f.String(), "Kubernetes")
	switch f.Mode {
	case Before, Hour, Forever:
		return verdict{err: retryable}
	case After, HourAfter:
		return verdict{effect: true, err: retryable}
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
