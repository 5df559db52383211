// Package process has the common parts of virtflow's processes: a cobra command whose flags fall back to the
// environment, structured logs, an HTTP port with /metrics, /healthz and /readyz, on request another one with
// /debug/pprof, and a context that ends on SIGTERM.
package process
