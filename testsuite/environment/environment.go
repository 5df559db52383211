// Package environment makes Temporal's environment for tests of workflows, whose clock is played, with a limit in real
// time that no busy machine meets.
package environment

import (
	"time"

	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
)

// limit is for how long, in real time, nothing may happen in a test, where the SDK allows three seconds: only a
// workflow that waits for ever meets it.
const limit = 30 * time.Second

// New is an environment. Each setUp may set the logger, the metrics and the like of the suite that it is made of.
func New(setUp ...func(*testsuite.WorkflowTestSuite)) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	for _, f := range setUp {
		f(&suite)
	}
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(limit)
	// A second without the processor is no deadlock, either.
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: limit})
	return env
}
