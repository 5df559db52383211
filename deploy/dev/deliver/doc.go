// Package deliver brings virtflow itself into the development cluster: it builds the images, gives them to the nodes,
// applies the manifests, and runs the demonstration. It brings CDI, too, where that is asked for, and KubeVirt's own
// controllers instead of virtflow.
package deliver
