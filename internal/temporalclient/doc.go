// Package temporalclient connects a process to Temporal: address, namespace, mutual TLS with certificates that are read
// again when they change, or an API key, Prometheus metrics and structured logs. It detects when Temporal was away.
package temporalclient
