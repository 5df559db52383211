// Package metrics compares docs/metrics.md with what the processes register: each package that has metrics compares
// its registry with its rows on the page, and the alerts and the dashboard may name nothing else. It also reads the
// dashboard.
package metrics
