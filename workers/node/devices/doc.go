// Package devices offers the node's /dev/kvm, /dev/net/tun and /dev/vhost-net to pods as Kubernetes resources, with
// KubeVirt's names, by the kubelet's device plugin interface. Any number of pods share each device; the count only
// limits how many.
package devices
