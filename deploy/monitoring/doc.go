// Package monitoring has the configuration of Prometheus and Grafana: rules.yaml with the alerts, KubeVirt's rules,
// both as objects of the Prometheus operator, too, the scrape targets, and a dashboard. Its tests check all of these
// against the metrics of the processes, and against docs/runbooks.md.
package monitoring
