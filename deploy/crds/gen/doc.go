// Command gen writes the CustomResourceDefinitions in deploy/crds from the types of kubevirt.io/api, at the version
// that the root module requires. The types carry no markers for names, subresources and printer columns, so these are
// in kinds.go.
//
//	go run . generate    writes ../*.yaml
//	go run . verify      fails, and says which file, when that would change anything
//
// It is a module of its own because controller-tools wants newer Kubernetes libraries than virtflow is built with. The
// types are nevertheless read with the root module's versions.
package main
