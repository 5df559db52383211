package kvm

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Trial returns why KVM cannot run a guest, within limit; nil if it can. It is Try with all arguments but the limit
// set.
type Trial func(ctx context.Context, limit time.Duration) error

// trialLimits are the limits of consecutive trials, 30 s in all. A virtual CPU needs less than 1 ms to halt; on a node
// where everything boots at once, starting the process that runs it may take seconds.
func trialLimits() wait.Backoff { return wait.Backoff{Duration: 2 * time.Second, Factor: 2, Steps: 4} }

// Judge tries again, with more time, while a trial gets no answer.
func Judge(ctx context.Context, try Trial) error {
	limits := trialLimits()
	for {
		err := try(ctx, limits.Step())
		if !errors.Is(err, ErrNoAnswer) || limits.Steps == 0 || ctx.Err() != nil {
			return err
		}
	}
}

const (
	// recheck is the time between two judgements. It bounds how long a module that is loaded, or removed, stays
	// undetected.
	recheck = time.Minute
	// recheckSilent is the longest time between two where KVM does not answer: each trial there keeps a CPU busy for up
	// to 16 s.
	recheckSilent = 15 * time.Minute
)

// Watch judges repeatedly until ctx ends, and calls changed at each change: with nil once KVM works, else with the
// reason why it does not. Known is the earlier result, for which changed is not called.
func Watch(ctx context.Context, try Trial, known error, changed func(error)) {
	watch(ctx, try, known, changed, time.After)
}

func watch(
	ctx context.Context, try Trial, known error, changed func(error), after func(time.Duration) <-chan time.Time,
) {
	pauses := wait.Backoff{Duration: 2 * time.Second, Factor: 2, Steps: 20, Cap: recheckSilent}
	for {
		pause := recheck
		if errors.Is(known, ErrNoAnswer) {
			pause = pauses.Step()
		}
		select {
		case <-ctx.Done():
			return
		case <-after(pause):
		}
		found := Judge(ctx, try)
		if ctx.Err() != nil {
			return
		}
		if text(found) != text(known) {
			changed(found)
		}
		known = found
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
