// Package clients shows virtflow's objects to programs that people use with KubeVirt, by the code of these programs. It
// is a module of its own, since they are not dependencies of the product.
//
//	stories_test.go   the objects: the first in each state in the stories of testsuite/world
//	states_test.go    the name of the state in which an object is
//	health_test.go    the tables: what each program makes of each state
//	argocd_test.go    Argo CD's health scripts, run as Argo CD runs them
//	kubevirt_test.go  the KubeVirt object
package clients
