// Package crash kills the control worker and crdwatch, real processes, with SIGKILL after every single event of the
// histories of scenarios, also of those in which the entities continue as new in the middle of a transition, and lets
// old and new releases of the control worker work at the same time (`make test-crash`). Temporal is the real server;
// Kubernetes is the API server in memory (testsuite/kube), which they reach over HTTP; scheduler, kubelet, launchers
// and guests are simulated.
//
//	temporal_test.go   a Temporal server of the test's own
//	programs_test.go   the programs of this checkout, and the control worker of a release
//	lane_test.go       one cluster: a Temporal namespace, an API server, crdwatch, a node, a control worker
//	node_test.go       the node: scheduler, kubelet, launchers, guests
//	follow_test.go     the histories of one scenario, event by event
//	scenarios_test.go  requests, and the ends that they must reach
//	story_test.go      one run of a scenario, and its outcome as text
//	crash_test.go      a kill after each event
//	mixed_test.go      old and new workers alternately, and at the same time
//	heal_test.go       Temporal's database is lost
//	older_copy_test.go a terminated entity, a fencing token that is lost, an older copy of Temporal's database
//	gateway_test.go    a node's worker reaches Temporal through the gateway
//	fairness_test.go   a stop beside many starts of another namespace
//	cost_test.go       the cost of a VM and a VMI in events, workflow tasks, signals and requests
//	record_test.go     histories of migrations and of a drain, for testsuite/replay
package crash
