// Package monitoring is what Prometheus and Grafana are given: rules.yaml with the alerts, the same as an object of the
// Prometheus operator, what is scraped, and a dashboard. Its tests hold all of these to the metrics that the processes
// have, and to docs/runbooks.md.
package monitoring
