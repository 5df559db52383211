package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	uiserver "github.com/temporalio/ui-server/v2/server"
	"github.com/temporalio/ui-server/v2/server/server_options"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"

	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/health"
	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/roles"
	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/schema"
	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/settings"
	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/tlsfiles"
)

const (
	// readyTimeout is how long the services may take until they serve; it is a second or two when all is well.
	readyTimeout = time.Minute
	sqlite       = "sqlite"
	postgres     = "postgres12_pgx"
)

// Run starts the services and the UI and stops them when the context ends. It returns nil after an orderly stop.
func Run(ctx context.Context, flags settings.Flags, logger zerolog.Logger) error {
	began := time.Now()
	loaded, err := settings.Load(flags)
	if err != nil {
		return err
	}
	address, err := netip.ParseAddrPort(flags.Address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	if err := tlsfiles.Check(flags.TLS, address); err != nil {
		return fmt.Errorf("certificates (--tls): %w", err)
	}
	unlock, err := lock(flags.Data)
	if err != nil {
		return err
	}
	defer unlock()
	if err := portsFree(ctx, flags, loaded.Server); err != nil {
		return err
	}
	for name, store := range loaded.Server.Persistence.DataStores {
		if err := ensureSchema(ctx, store, name == loaded.Server.Persistence.VisibilityStore); err != nil {
			return fmt.Errorf("datastore %s: %w", name, err)
		}
	}
	services, err := newServices(loaded.Server)
	if err != nil {
		return err
	}
	if err := services.Start(); err != nil {
		return fmt.Errorf("starting Temporal's services: %w", err)
	}
	ui := uiserver.NewServer(server_options.WithConfigProvider(loaded.UI))
	uiEnded := make(chan error, 1)
	go func() { uiEnded <- ui.Start() }()

	err = serve(ctx, flags, loaded.Server, began, uiEnded, logger)

	logger.Info().Msg("stopping")
	ui.Stop()
	if stopErr := services.Stop(); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("stopping Temporal's services: %w", stopErr))
	}
	logger.Info().Msg("stopped")
	return err
}

func ensureSchema(ctx context.Context, store config.DataStore, visibility bool) error {
	switch {
	case store.SQL == nil:
		return nil
	case store.SQL.PluginName == sqlite:
		return schema.Ensure(ctx, store.SQL.DatabaseName)
	case store.SQL.PluginName == postgres:
		return schema.EnsurePostgres(ctx, *store.SQL, visibility)
	default:
		return nil
	}
}

// serve logs when the server is ready and waits for the end of the context or of the UI.
func serve(
	ctx context.Context, flags settings.Flags, cfg *config.Config, began time.Time, uiEnded <-chan error,
	logger zerolog.Logger,
) error {
	if err := health.Wait(ctx, cfg.PublicClient.HostPort, flags.TLS, readyTimeout); err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop while starting
		}
		return err
	}
	logger.Info().
		Str("version", headers.ServerVersion).
		Str("address", flags.Address).
		Str("ui", "http://"+flags.UIAddress).
		Str("data", flags.Data).
		Dur("took_ms", time.Since(began)).
		Msg("started Temporal")
	select {
	case <-ctx.Done():
		return nil
	case err := <-uiEnded:
		return fmt.Errorf("the UI ended by itself: %w", err)
	}
}

// newServices wires Temporal's services. Every service is at one fixed address, so nothing has to find anything.
func newServices(cfg *config.Config) (temporal.Server, error) {
	logger := log.NewZapLogger(log.BuildZapLogger(cfg.Log))
	hosts := make(map[primitives.ServiceName]static.Hosts, len(cfg.Services))
	for name, service := range cfg.Services {
		host := net.JoinHostPort(service.RPC.BindOnIP, strconv.Itoa(service.RPC.GRPCPort))
		if name == string(primitives.FrontendService) {
			host = cfg.PublicClient.HostPort // it may listen on every address, and that is none to connect to
		}
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(host)
	}
	services, err := temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(logger),
		// A certificate of the CA may name a role; without one it may do everything.
		temporal.WithAuthorizer(roles.NewAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return roles.Mapper{} }),
	)
	if err != nil {
		return nil, fmt.Errorf("setting up Temporal's services: %w", err)
	}
	return services, nil
}

// lock keeps a second server away from the same databases: both would believe that they own every shard.
func lock(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("locking the data directory: another server uses %s (%w)", dir, err)
	}
	return func() { _ = file.Close() }, nil
}

// portsFree returns an error that names an address which is in use; the services themselves would end the process with
// a stack trace.
func portsFree(ctx context.Context, flags settings.Flags, cfg *config.Config) error {
	addresses := []string{flags.UIAddress, flags.MetricsAddress}
	if flags.PprofAddress != "" {
		addresses = append(addresses, flags.PprofAddress)
	}
	for _, service := range cfg.Services {
		addresses = append(addresses, net.JoinHostPort(service.RPC.BindOnIP, strconv.Itoa(service.RPC.GRPCPort)))
	}
	var listen net.ListenConfig
	for _, address := range addresses {
		listener, err := listen.Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("cannot listen on %s (taken by another process, or not an address of this machine): %w",
				address, err)
		}
		_ = listener.Close()
	}
	return nil
}
