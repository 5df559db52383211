// Package iso writes the ISO 9660 images in which a guest finds files that come from Kubernetes: cloud-init data,
// Secrets, ConfigMaps and the like.
package iso
