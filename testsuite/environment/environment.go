package environment

import (
	"time"

	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
)

// Limit is for how long, in real time, nothing may happen in a test, where the SDK allows three seconds: only a
// workflow that waits for ever meets it.
const Limit = time.Minute

// New is an environment. Each setUp may set the logger, the metrics and the like of the suite that it is made of.
func New(setUp ...func(*testsuite.WorkflowTestSuite)) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	for _, f := range setUp {
		f(&suite)
	}
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(Limit)
	// A second without the processor is no deadlock, either.
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: Limit})
	return env
}
