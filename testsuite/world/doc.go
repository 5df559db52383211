// Package world runs the whole control plane in one process under virtual time: the real entity workflows and
// transitions, the real activities against a Kubernetes API server in memory, and crdwatch's own decisions about which
// workflow gets which observation. Scheduler, kubelets, launchers, node workers and Kubernetes' controllers are
// simulated, and act at virtual times.
//
//	world.go        a world: how its parts are put together, and how a script runs in it
//	workflows.go    the workflows: starting them by signal, and the interceptor through which they reach this world
//	activities.go   attempts of activities: timeouts, retries and injected faults
//	faults.go       which attempt fails, and how
//	engine.go, engine_faults.go   faults of Temporal: entities terminated, its database put back or lost
//	convergence.go  what must hold soon after a fault of Temporal: the desired state, and an entity for each object
//	delivery.go     which changes reach crdwatch, what it sends to the workflows, and what chaos does to that
//	temporal.go     the part of a Temporal client that crdwatch calls
//	scheduler.go, kubelet.go, launcher.go, nodes.go   the rest of a cluster
//	libvirt_migration.go, migration_session.go, migration_activities.go   libvirt's and the node workers' migrations
//	user.go         what users do, through the real admission
//	operations.go, launcher_operations.go, stories_operate.go   operations on guests: requests, effects and stories
//	migrations.go, stories_migrate.go   migrations: requests, what must hold when they have ended, and stories
//	release.go      a release with another launcher, and what must hold when guests have left the outdated one
//	invariants.go   what must hold at every change, and when all is over
//	end_reasons.go  no running guest ends without a reason that exists in Kubernetes at that moment
//	scenarios.go, stories.go, stories_*.go   the stories
//	outages.go      parts of the system that are away for ten minutes
//	random.go       a story of random steps
//
// The suites (*_test.go): every activity invocation of every story fails in every way (matrix), and meets every fault
// of Temporal (engine); signals are duplicated, delayed, reordered and lost (chaos); requests and failures come in
// random sequences (model); every wait has a deadline (deadlines). report_test.go prints the outcome, and how to run a
// case alone.
package world
