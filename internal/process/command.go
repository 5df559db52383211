package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// EnvPrefix begins the environment variable of a flag: --temporal-address is VIRTFLOW_TEMPORAL_ADDRESS.
const EnvPrefix = "VIRTFLOW_"

// Version is the output of --version: the release that this build is, or precedes. A packager may set another one by
// -ldflags "-X …/internal/process.Version=…".
var Version = "v0.1.0"

// Process has the parts that every running process gets.
type Process struct {
	Log zerolog.Logger
	// Level changes what Log logs.
	Level    *Level
	Registry *prometheus.Registry
	// Health collects the checks behind /healthz and /readyz; add to it before returning from set-up.
	Health *Health
}

// Run does the work of a process until ctx ends. Returning nil is a clean stop.
type Run func(ctx context.Context, p *Process) error

// Options has the flags that every process has.
type Options struct {
	LogLevel       string
	LogFormat      string
	MetricsAddress string
	// PprofAddress is a loopback address; "" turns profiles off.
	PprofAddress string
}

// NewCommand returns the command of one process. addFlags may be nil. The HTTP port opens before run is called and
// closes after it.
func NewCommand(name, short string, addFlags func(*pflag.FlagSet), run Run) *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Long: short + "\n\nEvery flag may also be given as an environment variable: --some-flag is " +
			EnvPrefix + "SOME_FLAG.",
		Args:          cobra.NoArgs,
		Version:       Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		PreRunE:       func(cmd *cobra.Command, _ []string) error { return setFromEnvironment(cmd.Flags()) },
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), name, run) },
	}
	f := cmd.Flags()
	f.StringVar(&o.LogLevel, "log-level", "info", "least severe level to log: trace, debug, info, warn, error")
	f.StringVar(&o.LogFormat, "log-format", "json", "json, or console for people")
	f.StringVar(&o.MetricsAddress, "metrics-address", ":8080", "address of /metrics, /healthz and /readyz; empty: none")
	f.StringVar(&o.PprofAddress, "pprof-address", "",
		"loopback address of /debug/pprof, such as 127.0.0.1:6060; empty: none")
	if addFlags != nil {
		addFlags(f)
	}
	return cmd
}

// Main makes a command and runs it as a process: SIGTERM and SIGINT end its context, an error is printed and makes the
// exit code 1. A main function calls nothing else, so that the signals are handled before anything else happens: a
// signal that came too early would be lost.
func Main(command func() *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	cmd := command()
	err := cmd.ExecuteContext(ctx)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", cmd.Name(), err)
		os.Exit(1)
	}
}

func (o *Options) run(ctx context.Context, name string, run Run) error {
	log, level, err := newLogger(name, o.LogLevel, o.LogFormat)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		log.Info().Str("version", Version).Msg("stopped before work began")
		return nil
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p := &Process{Log: log, Level: level, Registry: reg, Health: NewHealth()}
	reg.MustRegister(Metrics(name, p.Health)...)
	if o.MetricsAddress != "" {
		stop, err := serve("metrics-address", o.MetricsAddress, handler(p), answerTimeout, log)
		if err != nil {
			return err
		}
		defer stop()
	}
	if o.PprofAddress != "" {
		stop, err := servePprof(o.PprofAddress, log)
		if err != nil {
			return err
		}
		defer stop()
	}
	log.Info().Str("version", Version).Msg("starting")
	err = run(ctx, p)
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		log.Info().Msg("stopped")
		return nil
	}
	return err
}

// NewLogger returns the logger of a process. Format is json or console.
func NewLogger(name, level, format string) (zerolog.Logger, error) {
	log, _, err := newLogger(name, level, format)
	return log, err
}

// newLogger is NewLogger, with what changes the logger's level.
func newLogger(name, level, format string) (zerolog.Logger, *Level, error) {
	l, err := zerolog.ParseLevel(level)
	if err != nil {
		return zerolog.Nop(), nil, fmt.Errorf("--log-level: %w", err)
	}
	out := zerolog.New(os.Stderr)
	switch format {
	case "json":
	case "console":
		out = zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "15:04:05.000"})
	default:
		return zerolog.Nop(), nil, fmt.Errorf("--log-format: %q is neither json nor console", format)
	}
	least := newLevel(l)
	return withLevel(out, least).With().Timestamp().Str("process", name).Logger(), least, nil
}

// withLevel returns a logger that logs at a level, and so do all loggers that are made from it.
func withLevel(log zerolog.Logger, level *Level) zerolog.Logger {
	return log.Level(zerolog.TraceLevel).Sample(level).Hook(level)
}

// setFromEnvironment gives each flag that is not on the command line the value of its environment variable, unless that
// is empty or unset.
func setFromEnvironment(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			return
		}
		name := EnvPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := os.LookupEnv(name); ok && v != "" {
			if err := flags.Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("environment variable %s: %w", name, err))
			}
		}
	})
	return errors.Join(errs...)
}
