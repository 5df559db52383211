// Package kubernetes pins the Kubernetes parts of the development cluster: one multi-call binary with every Kubernetes
// program (kube), etcd, CoreDNS and the sandbox's PID 1 (pause). They share a module so that the many packages that
// they have in common compile once. Nothing else imports it.
package kubernetes
