// Package monitoring has the configuration of Prometheus and Grafana: rules.yaml with the alerts, the same as an object
// of the Prometheus operator, the scrape targets, and a dashboard. Its tests check all of these against the metrics of
// the processes, and against docs/runbooks.md.
package monitoring
