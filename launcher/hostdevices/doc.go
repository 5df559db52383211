// Package hostdevices reads which devices of the host this pod has been given. The node's device plugins report them in
// environment variables of the container; drivers of ResourceClaims (dynamic resource allocation) in files.
package hostdevices
