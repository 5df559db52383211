// Package workloadupdate has guests leave launchers whose image is not the one that new ones get: by migration, or by
// eviction, as spec.workloadUpdateStrategy of the KubeVirt object says. One workflow does it for the cluster. It is
// started where there are such launchers, and ends when there are none; what there is it reads from Kubernetes.
//
//	state.go     who is outdated, and how each stands
//	plan.go      what is to be done next
//	workflow.go  the steps, and the loop
//	controls.go  what a person may ask of it
//	words.go     how far it is, in words
package workloadupdate
