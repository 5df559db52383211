// Package world runs the whole control plane in one process under virtual time: the real entity workflows and
// transitions, the real activities against a Kubernetes API server in memory, and crdwatch's own decisions about what
// is told to whom. Scheduler, kubelets, launchers, node workers and controllers of Kubernetes are played, and act at
// virtual times.
//
//	world.go        a world: how its parts are put together, and how a script runs in it
//	workflows.go    the workflows: starting them by signal, and the interceptor through which they reach this world
//	activities.go   attempts of activities: time-outs, retries, and faults put into them
//	faults.go       which attempt fails, and how
//	engine.go, mishaps.go   what happens to Temporal: entities terminated, its database put back or lost
//	healing.go      what must hold soon after a fault of the engine: all as wanted, and an entity for each object
//	delivery.go     what changes reach crdwatch, what it tells the workflows, and what chaos does to that
//	temporal.go     the part of a Temporal client that crdwatch asks
//	scheduler.go, kubelet.go, launcher.go, nodes.go   the rest of a cluster
//	move.go, session.go, migrated.go   how a guest is moved: libvirt, node workers and what they are asked to do
//	user.go         what users do, through the real admission
//	operate.go, operated.go, stories_operate.go   operations on guests: asking, doing, and their stories
//	migrations.go, stories_migrate.go   migrations: asking for them, what must be when they have ended, and their stories
//	release.go      a release with another launcher, and what must be when guests have left the older one
//	invariants.go   what must hold at every change, and when all is over
//	asked.go        no guest that runs is ended but by a reason that exists in Kubernetes at that moment
//	scenarios.go, stories.go, stories_more.go, stories_owned.go, stories_rare.go   the stories
//	stories_failures.go, outages.go   what users have to mend, and what is away for a while
//	improvised.go   a story of arbitrary steps
//
// The suites (*_test.go): every activity invocation of every story failing in every way (matrix), and everything that
// can happen to the engine happening there (engine), signals duplicated, delayed, reordered and lost (chaos), random
// sequences of requests and failures (model), and a list of every wait with its deadline (deadlines). report_test.go
// prints what came of them, and how to run a case alone.
package world
