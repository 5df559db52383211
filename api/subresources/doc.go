// Package subresources serves the aggregated API subresources.kubevirt.io: the requests of KubeVirt's clients about a
// virtual machine beyond its object, such as start, pause and console.
//
//	routes.go        all paths, with method, verb and handler, as one table
//	serve.go         a request before its handler: path, identity, authorisation
//	frontproxy.go    the user, as the API server's front proxy reports it
//	authorize.go     the user's permission, as the API server decides it
//	answer.go        errors, in KubeVirt's words
//	discovery.go, openapi.go   what the API server and kubectl read about this API
//	lookup.go        the objects that requests are about
//	vm_*.go, vmi_*.go          the handlers
package subresources
