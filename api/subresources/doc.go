// Package subresources serves the aggregated API subresources.kubevirt.io: what KubeVirt's clients ask of a virtual
// machine beyond its object, such as start, pause and console.
//
//	routes.go        every path there is, with its method, verb and handler, as one table
//	serve.go         what becomes of a request before its handler: path, identity, authorisation
//	frontproxy.go    who asks, as the API server's front proxy says
//	authorize.go     whether they may, as the API server decides
//	answer.go        errors as KubeVirt words them
//	discovery.go, openapi.go   what the API server and kubectl read of this API
//	lookup.go        the objects that requests are about
//	vm_*.go, vmi_*.go          the handlers
package subresources
