package environment

import (
	"time"

	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
)

// Limit is for how long, in real time, nothing may happen in a test; the SDK's default is three seconds. Only a
// workflow that waits for ever reaches it.
const Limit = time.Minute

// New returns an environment. Each setUp may set the logger, the metrics and the like of its suite.
func New(setUp ...func(*testsuite.WorkflowTestSuite)) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	for _, f := range setUp {
		f(&suite)
	}
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(Limit)
	// A second without the processor is not a deadlock either.
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: Limit})
	return env
}
