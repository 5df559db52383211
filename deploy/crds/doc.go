// Package crds holds the custom resource definitions, for programs that read them.
package crds
