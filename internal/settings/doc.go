// Package settings reads what the cluster's administrator has set in the KubeVirt object, and keeps it current.
package settings
