// Command gen writes KubeVirt's recording rules and alerts as virtflow has them, from KubeVirt's own package.
//
//	go run . generate    writes ../kubevirt-rules.yaml, ../kubevirt-prometheusrule.yaml and docs/kubevirt-rules.md
//	go run . verify      fails, and names the file, when that would change anything
//
//	decisions.go   the rules that are left out or changed, with the reasons, and the names of KubeVirt's components here
//	rules.go       KubeVirt's rules with the decisions applied
//	page.go        the page with the decisions
//
// It is a module of its own because KubeVirt's module wants other versions of Kubernetes' libraries than virtflow is
// built with.
package main
