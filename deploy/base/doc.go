// Package base is the folder of virtflow's manifests; its tests check what they give away.
package base
