// Package hostdevices reads which devices of the host this pod has been given. The node's device plugins tell by
// environment variables of its container; drivers of resource claims (dynamic resource allocation) by files in it.
package hostdevices
