package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	activities "github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/multus"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/internal/streams/wire"
	"github.com/virtflow/virtflow/internal/temporalclient"
	"github.com/virtflow/virtflow/workers/node/access"
	"github.com/virtflow/virtflow/workers/node/forward"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/migrate"
	"github.com/virtflow/virtflow/workers/node/records"
	"github.com/virtflow/virtflow/workers/node/report"
	"github.com/virtflow/virtflow/workers/node/statistics"
)

const (
	procDir = "/proc"

	// drainTimeout is for the tasks under way when the process has to stop; a start takes a second or two. It fits into
	// a pod's usual grace period of 30 s.
	drainTimeout = 20 * time.Second
	// concurrentStarts and concurrentOperations limit how many calls of launchers may be under way at once, each for
	// itself: launchers that hang in an operation do not keep guests from starting, nor the other way round. The worker
	// has slots for all of them and for migrations, and for what is refused or answered at once.
	concurrentStarts, concurrentOperations, quickAnswers = 64, 32, 4
	// migrationTimeout is how long migrations may still take when the process has to stop. Everything else continues in
	// that time, and no migration begins.
	migrationTimeout = 5 * time.Minute
	// guestTimeout is how long a guest may take to accept a connection.
	guestTimeout = 10 * time.Second
)

// Options are the flags of the node worker.
type Options struct {
	Temporal   temporalclient.Options
	NodeName   string
	KubeletDir string
	StateDir   string
	MaxDevices int
	// Capabilities is the file with what the launcher's libvirt and QEMU offer on this host.
	Capabilities string
	// AccessAddress is where the API server reaches guests; empty: nowhere. AccessDir has the certificates for it.
	AccessAddress string
	AccessDir     string
	// PodIP is the address of this pod, where guests arrive that other nodes send, unless the pod has an interface for
	// that. MigrationPort is the port, which is open only while a guest is expected.
	PodIP         string
	MigrationPort uint16
	// PodNamespace and PodNetworks are the namespace of this pod, and its annotation for Multus.
	PodNamespace, PodNetworks string
}

// AddFlags registers the flags of o. Temporal's address is that of the node gateway. The node's name also comes from
// NODE_NAME, where manifests usually put it.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	o.Temporal.AddFlags(f)
	f.StringVar(&o.NodeName, "node-name", os.Getenv("NODE_NAME"),
		"name of the Kubernetes node that this is (also from NODE_NAME)")
	f.StringVar(&o.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "the kubelet's directory")
	f.StringVar(&o.StateDir, "state-dir", "/var/lib/virtflow", "directory for what is to survive a restart")
	f.StringVar(&o.Capabilities, "capabilities-file", "/run/virtflow/host/capabilities.json",
		"file that `launcher capabilities` has written on this host")
	f.StringVar(&o.AccessAddress, "access-address", fmt.Sprintf(":%d", wire.Port),
		"address on which the api-server reaches guests; empty: nowhere")
	f.StringVar(&o.AccessDir, "access-dir", "/etc/virtflow/access",
		"directory with tls.crt, tls.key and ca.crt for that; they may come later")
	f.StringVar(&o.PodIP, "pod-ip", os.Getenv("POD_IP"),
		"address of this pod, where guests arrive from other nodes unless the pod has an interface migration0 "+
			"(also from POD_IP)")
	f.StringVar(&o.PodNamespace, "pod-namespace", os.Getenv("POD_NAMESPACE"),
		"namespace of this pod (also from POD_NAMESPACE)")
	f.StringVar(&o.PodNetworks, "pod-networks", os.Getenv("POD_NETWORKS"),
		"annotation "+multus.AnnotationNetworks+" of this pod, which names the network of migration0 (also from "+
			"POD_NETWORKS)")
	f.Uint16Var(&o.MigrationPort, "migration-port", migration.Port,
		"port for that; it is open only while a guest is expected")
	f.IntVar(&o.MaxDevices, "max-devices", 1000,
		"how many pods of this node may have /dev/kvm, and how many /dev/net/tun, at a time")
}

func (o *Options) validate() error {
	switch {
	case o.NodeName == "":
		return errors.New("--node-name is not set: give the name of the Kubernetes node")
	case o.MaxDevices < 0:
		return fmt.Errorf("--max-devices is %d: it cannot be less than 0", o.MaxDevices)
	}
	if _, err := o.podIP(); err != nil {
		return fmt.Errorf("--pod-ip: %w", err)
	}
	return nil
}

// podIP may be no address: then no guest arrives but by an interface for that.
func (o *Options) podIP() (netip.Addr, error) {
	if o.PodIP == "" {
		return netip.Addr{}, nil
	}
	return netip.ParseAddr(o.PodIP) // it says what is wrong with which text
}

// Run is the node worker, until ctx ends; then it finishes what it has in hand.
func (o *Options) Run(ctx context.Context, p *process.Process) error {
	if err := o.validate(); err != nil {
		return err
	}
	p.Log = p.Log.With().Str("node", o.NodeName).Logger()
	store, err := records.Open(filepath.Join(o.StateDir, "launchers"))
	if err != nil {
		return err
	}
	known, err := store.Load()
	if err != nil {
		p.Log.Error().Err(err).Msg(
			"failed to load some launcher records; their domains are not watched until they are started again")
	}
	// What is beside Temporal lives a little longer than ctx: what is in hand still needs it.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	defer all.Wait()
	defer end()

	host := o.findHost(ctx, p)
	o.offerDevices(life, &all, p, host)
	polling := temporalclient.NewPolling(contract.NodeTaskQueue(o.NodeName), p.Log, p.Registry)
	p.Health.AddReady("temporal", polling.Ready)
	o.Temporal.NoWorkerHeartbeats = true
	outages := temporalclient.NewOutages()
	o.Temporal.Interceptors = append(o.Temporal.Interceptors, outages.Intercept)
	temporal, err := o.Temporal.Dial(ctx, p.Log, p.Registry, "node-worker@"+o.NodeName)
	if ctx.Err() != nil {
		return nil // stopped before Temporal was there
	}
	if err != nil {
		return err
	}
	defer temporal.Close()
	dialer := launchers.Dialer{KubeletDir: o.KubeletDir, ProcDir: procDir}
	forwarder := forward.New(forward.Options{
		Log: p.Log, Temporal: temporal, Records: store, Registry: p.Registry,
		Connect:   func(ctx context.Context, pod string) (forward.Launcher, error) { return dialer.Connect(ctx, pod) },
		IsPodGone: func(pod string) bool { return launchers.IsPodGone(o.KubeletDir, pod) },
	}, known)
	p.Log.Info().Int("launchers", len(known)).Msg("watching the launchers recorded by an earlier run")
	statistics.New(statistics.Options{
		Log: p.Log, Node: o.NodeName, Guests: forwarder.Guests, Machine: dialer.Machine, Registry: p.Registry,
	})
	all.Go(func() { forwarder.Run(life) })
	all.Go(func() {
		for life.Err() == nil {
			select {
			case <-life.Done():
			case lost := <-outages.Restored():
				forwarder.Redeliver(lost.Add(-temporalclient.Forgotten))
			}
		}
	})
	o.giveAccess(life, &all, p, dialer, forwarder)
	all.Go(func() {
		host.send(life, func(r contract.NodeReport) { report.Send(life, temporal, o.NodeName, r, p.Log) })
	})
	starter := NewStarter(p.Log, dialer, forwarder, PrepareNetworks)
	address, _ := o.podIP()
	sessions := migrate.NewSessions(o.NodeName, p.Log, p.Registry)
	mover := NewMover(starter, sessions, migrate.NewTargets(migrate.TargetOptions{
		Log: p.Log, Pod: address, Port: o.MigrationPort, Registry: p.Registry,
		Node: o.NodeName, Network: multus.Requested(o.PodNetworks, o.PodNamespace, migrate.Interface),
	}))
	a := &activities.Activities{Starter: starter, Operator: starter, Mover: mover, Report: host.report}
	working, stop := context.WithCancel(life)
	defer stop()
	context.AfterFunc(ctx, func() {
		defer stop()
		p.Log.Info().Msg("waiting for migrations to end")
		mover.Shutdown(context.WithoutCancel(ctx), migrationTimeout)
	})
	// The control worker registers the namespace: on a new cluster, or one whose Temporal has lost its database, this
	// may come first.
	polling.Run(working, func(ctx context.Context) error {
		return temporalclient.NamespaceExists(ctx, temporal, o.Temporal.Namespace)
	},
		func(onFatal func(error)) worker.Worker { return o.newWorker(temporal, a, onFatal) })
	end()
	all.Wait() // before the client is closed
	return nil
}

// newWorker makes a worker of the node's task queue.
func (o *Options) newWorker(temporal client.Client, a *activities.Activities, onFatal func(error)) worker.Worker {
	w := worker.New(temporal, contract.NodeTaskQueue(o.NodeName), worker.Options{
		DisableWorkflowWorker: true,
		MaxConcurrentActivityExecutionSize: concurrentStarts + concurrentOperations + concurrentMoves +
			concurrentPreparations + concurrentMoveCalls + quickAnswers,
		MaxConcurrentActivityTaskPollers: temporalclient.Pollers,
		MaxHeartbeatThrottleInterval:     progressInterval,
		WorkerStopTimeout:                drainTimeout,
		OnFatalError:                     onFatal,
	})
	RegisterActivities(w, a)
	return w
}

// giveAccess serves the API server until ctx ends.
func (o *Options) giveAccess(
	ctx context.Context, all *sync.WaitGroup, p *process.Process, dialer launchers.Dialer, known *forward.Forwarder,
) {
	if o.AccessAddress == "" {
		return
	}
	server := access.New(access.Options{
		Log: p.Log, Registry: p.Registry, Credentials: o.AccessDir, Owner: known.VMI, Connect: connectTo(dialer),
	})
	all.Go(func() {
		if err := server.Listen(ctx, o.AccessAddress); err != nil {
			p.Log.Error().Err(err).Msg("failed to serve consoles, screens and ports of this node's guests")
		}
	})
}
