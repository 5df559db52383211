// Package base has virtflow's manifests; its tests check the permissions that they grant.
package base
