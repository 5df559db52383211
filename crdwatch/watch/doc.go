// Package watch keeps what crdwatch knows of Kubernetes: informers, which strip each object to what observations and
// metrics need, and indexes to look them up. It sends nothing.
//
//	informers.go  the informers
//	strip.go      what they keep of an object
//	stripparts.go what they keep for the metrics of the parts of VMs and VMIs
//	indexes.go    the indexes, and what they index
//	lookups.go    what is looked up in them
//	observe.go    observations that need more than one object
package watch
