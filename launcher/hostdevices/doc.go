// Package hostdevices reads which devices of the host the node's device plugins have given this pod: they tell by
// environment variables of its container.
package hostdevices
