// Package environment makes Temporal's environment for tests of workflows, whose clock is played, with a limit in real
// time that no busy machine meets.
package environment

import (
	"time"

	"go.temporal.io/sdk/testsuite"
)

// limit is how long a test of a workflow may take in real time, where the SDK allows three seconds: only a workflow that
// never ends meets it.
const limit = 2 * time.Minute

// New is an environment, of a suite that was set up like that.
func New(setUp ...func(*testsuite.WorkflowTestSuite)) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	for _, f := range setUp {
		f(&suite)
	}
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(limit)
	return env
}
