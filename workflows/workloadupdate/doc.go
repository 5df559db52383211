// Package workloadupdate has guests leave launchers whose image is not the one that new ones get: by migration or by
// eviction, as spec.workloadUpdateStrategy of the KubeVirt object permits. One workflow does it for the cluster. It is
// started when there are such launchers, and ends when there are none; it reads them from Kubernetes.
//
//	state.go     the outdated guests, and how far each is
//	plan.go      the next step
//	workflow.go  the steps, and the loop
//	controls.go  the controls that a person may send
//	words.go     the texts on its progress
package workloadupdate
